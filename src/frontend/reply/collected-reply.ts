/**
 * A reply that is sent when it is complete.
 */
import { clientFinishReason, isQueryOnly, promptLogprobsEntries } from '../../api/index.ts'
import type { WholeChoice } from '../../api/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { OutputEvent } from '../../text/index.ts'
import { createToolCallId } from '../http/request-id.ts'
import type { ChoiceEnd, ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import { nvextOfChoice, promptIndexOf, tokenTextsOf, usageOfChoices } from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import type { ReplyFormat } from './reply-format.ts'
import type { WholeWriter } from './reply-writer.ts'
import { ToolCallCollector } from './tool-call-collector.ts'

export class CollectedReply implements WholeWriter {
  readonly #context: ReplyContext
  readonly #format: ReplyFormat
  readonly #choices: ChoiceSink[] = []
  readonly #outputs: CollectedChoice[] = []

  constructor(context: ReplyContext, format: ReplyFormat) {
    this.#context = context
    this.#format = format
  }

  createOutput(index: number): ChoiceOutput {
    const output = new CollectedChoice(this.#context, this.#format, index)
    this.#outputs.push(output)
    return output
  }

  addChoice(choice: ChoiceSink): void {
    this.#choices.push(choice)
  }

  began(): void {
    // Nothing is written before the end.
  }

  completed(): void {
    // `body` is called then.
  }

  brokeOff(): void {
    // The status of a reply that is not streamed is decided by its end, so an error is always its status.
  }

  keepAlive(): void {
    // There is no stream to write a comment to.
  }

  /** With `best_of` the most likely choices of each prompt, best first. */
  #shown(): WholeChoice[] {
    const { bestOf, choiceCount } = this.#context.call
    const whole = (output: CollectedChoice, index: number): WholeChoice =>
      output.whole(this.#choices[output.index], index)
    if (bestOf === undefined) return this.#outputs.map(whole)
    const best = this.#context.prompts.flatMap((_, prompt) =>
      this.#outputs
        .slice(prompt * choiceCount, (prompt + 1) * choiceCount)
        .toSorted((a, b) => b.meanLogprob - a.meanLogprob)
        .slice(0, bestOf),
    )
    return best.map(whole)
  }

  body(): string {
    const context = this.#context
    const isQuery = isQueryOnly(context.call.nvext)
    const first = this.#choices[0]
    const nvext =
      first === undefined
        ? undefined
        : nvextOfChoice(context, first, 0, this.#outputs[0]?.end ?? null)
    return this.#format.whole({
      head: context.head,
      choices: isQuery ? [NOTHING_SAID] : this.#shown(),
      usage: usageOfChoices(context, this.#choices),
      ...(nvext === undefined ? {} : { nvext }),
    })
  }
}

/** A query for workers generates nothing, but clients read the first choice. */
const NOTHING_SAID: WholeChoice = { index: 0, text: '', finish: 'stop' }

class CollectedChoice implements ChoiceOutput {
  readonly #context: ReplyContext
  readonly #format: ReplyFormat
  readonly index: number
  #text: string
  #reasoning = ''
  readonly #toolCalls = new ToolCallCollector()
  readonly #logprobs: TokenLogprobs[] = []
  end: ChoiceEnd | null = null

  constructor(context: ReplyContext, format: ReplyFormat, index: number) {
    this.#context = context
    this.#format = format
    this.index = index
    this.#text = context.echoes[promptIndexOf(context, index)] ?? ''
  }

  text(text: string): void {
    this.#text += text
  }

  textWithLogprobs(text: string, logprobs: readonly TokenLogprobs[]): void {
    this.#text += text
    this.#logprobs.push(...logprobs)
  }

  part(event: OutputEvent): void {
    if (event.kind === 'text') this.#text += event.text
    else if (event.kind === 'reasoning') this.#reasoning += event.text
    else this.#toolCalls.take(event, () => createToolCallId(this.#context.random))
  }

  finish(end: ChoiceEnd): void {
    this.end = end
  }

  /** Mean over the received tokens. */
  get meanLogprob(): number {
    const sum = this.#logprobs.reduce((all, { logprob }) => all + logprob, 0)
    return sum / Math.max(1, this.#logprobs.length)
  }

  whole(sink: ChoiceSink | undefined, index: number): WholeChoice {
    const { call, echoes } = this.#context
    const texts = tokenTextsOf(this.#context)
    const count = call.hidesLogprobs ? undefined : call.output.logprobs
    const tokenIds = this.#context.prompts[promptIndexOf(this.#context, this.index)]?.tokenIds ?? []
    const scored = { tokenIds, logprobs: sink?.promptLogprobs ?? [] }
    const asked = call.output.promptLogprobs
    const echoed = asked !== undefined && echoes.length > 0 ? scored : undefined
    const toolCalls = this.#toolCalls.calls(call.allowsSeveralCalls, call.customTools)
    return {
      index,
      text: this.#text,
      finish: clientFinishReason(this.end?.finish ?? 'stop', toolCalls.length > 0),
      ...(this.#reasoning === '' ? {} : { reasoning: this.#reasoning }),
      ...(toolCalls.length === 0 ? {} : { toolCalls }),
      ...(count === undefined
        ? {}
        : { logprobs: this.#format.logprobs(this.#logprobs, count, texts, echoed) }),
      ...(call.showsPromptLogprobs && asked !== undefined
        ? { promptLogprobs: promptLogprobsEntries(scored, asked, texts) }
        : {}),
      ...(call.showsTokenIds
        ? { tokenIds: this.end?.completionTokenIds ?? [], promptTokenIds: Array.from(tokenIds) }
        : {}),
    }
  }
}
