/**
 * Replies of `/inference/v1/generate`: token ids, whole or streamed, with their log-probabilities by id.
 */
import type { BatonError } from '../../base/index.ts'
import {
  DONE_EVENT,
  KEEP_ALIVE_COMMENT,
  asciiJson,
  clientFinishReason,
  errorEvent,
  promptLogprobsEntries,
  tokenLogprobsEntries,
  usageJson,
} from '../../api/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { ChoiceEnd, ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import { EventStream } from './event-stream.ts'
import { nvextOfChoice, tokenTextsOf, usageOfChoices } from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import type { ReplyWriters, StreamedWriter, WholeWriter } from './reply-writer.ts'

export const TOKEN_WRITERS: ReplyWriters = {
  idPrefix: 'generate-tokens-',
  streamed: (context) => new TokenReply(context),
  whole: (context) => new TokenReply(context),
}

class TokenReply implements StreamedWriter, WholeWriter {
  readonly stream = new EventStream()
  readonly #context: ReplyContext
  readonly #choices: ChoiceSink[] = []
  readonly #outputs: TokenChoice[] = []

  constructor(context: ReplyContext) {
    this.#context = context
  }

  createOutput(index: number): ChoiceOutput {
    const write = (choice: unknown): void => this.#write([choice])
    const sink = (): ChoiceSink | undefined => this.#choices[index]
    const output = new TokenChoice(this.#context, index, sink, write)
    this.#outputs.push(output)
    return output
  }

  addChoice(choice: ChoiceSink): void {
    this.#choices.push(choice)
  }

  began(): void {
    // The first event contains the first ids.
  }

  completed(): void {
    if (!this.#context.call.stream) return
    if (this.#context.call.includeUsage) this.#write([], this.#usage())
    this.stream.write(DONE_EVENT)
    this.stream.end()
  }

  brokeOff(error: BatonError): void {
    this.stream.write(errorEvent(error) + DONE_EVENT)
    this.stream.end()
  }

  keepAlive(): void {
    this.stream.write(KEEP_ALIVE_COMMENT)
  }

  body(): string {
    const { call, head, prompts } = this.#context
    const [first] = this.#choices
    const asked = call.output.promptLogprobs
    const scored = { tokenIds: prompts[0]?.tokenIds ?? [], logprobs: first?.promptLogprobs ?? [] }
    const start = asciiJson({
      request_id: head.id,
      model: head.model,
      created: head.created,
      output_mode: 'tokens',
      prompt_logprobs:
        asked === undefined
          ? null
          : promptLogprobsEntries(scored, asked, tokenTextsOf(this.#context)),
      choices: this.#outputs.map((output) => output.whole()),
    }).slice(0, -1)
    const end = this.#outputs[0]?.end ?? null
    const nvext = first === undefined ? undefined : nvextOfChoice(this.#context, first, 0, end)
    return `${start},"usage":${this.#usage()}${nvext === undefined ? '' : `,"nvext":${nvext}`}}`
  }

  #usage(): string {
    return usageJson(usageOfChoices(this.#context, this.#choices))
  }

  #write(choices: readonly unknown[], usage = 'null'): void {
    const start = asciiJson({
      request_id: this.#context.head.id,
      output_mode: 'tokens',
      choices,
    }).slice(0, -1)
    this.stream.write(`data: ${start},"usage":${usage}}\n\n`)
  }
}

class TokenChoice implements ChoiceOutput {
  readonly #context: ReplyContext
  readonly #index: number
  readonly #sink: () => ChoiceSink | undefined
  readonly #write: (choice: unknown) => void
  readonly #logprobs: TokenLogprobs[] = []
  #idsSent = 0
  end: ChoiceEnd | null = null

  constructor(
    context: ReplyContext,
    index: number,
    sink: () => ChoiceSink | undefined,
    write: (choice: unknown) => void,
  ) {
    this.#context = context
    this.#index = index
    this.#sink = sink
    this.#write = write
  }

  text(): void {
    this.#send(null)
  }

  part(): void {
    this.#send(null)
  }

  textWithLogprobs(_text: string, logprobs: readonly TokenLogprobs[]): void {
    this.#logprobs.push(...logprobs)
    this.#send(null)
  }

  finish(end: ChoiceEnd): void {
    this.end = end
    this.#send(end)
  }

  whole(): unknown {
    return this.#object(this.end?.completionTokenIds ?? [], this.#logprobs, this.end)
  }

  /**
   * Sends the ids since the last event. A token that completes no character is sent with the token that does.
   */
  #send(end: ChoiceEnd | null): void {
    if (!this.#context.call.stream) return
    const all = end?.completionTokenIds ?? this.#sink()?.tokenIds ?? []
    const ids = all.slice(this.#idsSent)
    if (ids.length === 0 && end === null) return
    const logprobs = this.#logprobs.slice(this.#idsSent, all.length)
    this.#idsSent = all.length
    this.#write(this.#object(ids, logprobs, end))
  }

  #object(
    ids: readonly number[],
    logprobs: readonly TokenLogprobs[],
    end: ChoiceEnd | null,
  ): unknown {
    const { call } = this.#context
    const count = call.output.logprobs
    return {
      index: this.#index,
      token_ids: ids,
      finish_reason: end === null ? null : clientFinishReason(end.finish, false),
      stop_reason: end?.stopReason ?? null,
      logprobs: count === undefined ? null : { content: tokenLogprobsEntries(logprobs, count) },
    }
  }
}
