/**
 * A reply as server-sent events; each choice is written as its tokens arrive.
 */
import type { BatonError } from '../../base/index.ts'
import {
  CustomToolInput,
  DONE_EVENT,
  KEEP_ALIVE_COMMENT,
  clientFinishReason,
  errorEvent,
  isQueryOnly,
  nvextEvent,
  toolCallDeltaJson,
  toolCallStartJson,
  usageEvent,
  usageJson,
} from '../../api/index.ts'
import type { ChoiceChunks } from '../../api/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { OutputEvent } from '../../text/index.ts'
import { createToolCallId } from '../http/request-id.ts'
import type { ChoiceEnd, ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import { EventStream } from './event-stream.ts'
import {
  nvextOfChoice,
  nvextOfTokens,
  promptIndexOf,
  tokenTextsOf,
  usageOfChoice,
  usageOfChoices,
} from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import type { ReplyFormat } from './reply-format.ts'
import type { StreamedWriter } from './reply-writer.ts'

export class StreamedReply implements StreamedWriter {
  readonly stream = new EventStream()
  readonly #context: ReplyContext
  readonly #format: ReplyFormat
  choices: readonly ChoiceSink[] = []

  constructor(context: ReplyContext, format: ReplyFormat, annotations: readonly string[]) {
    this.#context = context
    this.#format = format
    for (const annotation of annotations) this.stream.write(annotation)
  }

  createOutput(index: number): ChoiceOutput {
    return new StreamedChoice(this, this.#context, this.#format, index)
  }

  addChoice(choice: ChoiceSink): void {
    // `push` on an empty array would reserve room for seventeen elements.
    this.choices = this.choices.concat(choice)
  }

  began(): void {
    // The prompt's log-probabilities arrive before the first token, and each choice shows them with its own.
    if (this.#context.call.output.promptLogprobs !== undefined) return
    this.#context.echoes.forEach((echo, promptIndex) => {
      if (echo === '') return
      for (let nth = 0; nth < this.#context.call.choiceCount; nth++) {
        const index = promptIndex * this.#context.call.choiceCount + nth
        const chunks = this.#format.chunks(this.#context.head, {
          index,
          includeUsage: this.#context.call.includeUsage,
        })
        this.stream.write(chunks.content(echo))
      }
    })
  }

  completed(): void {
    const { call, head } = this.#context
    const format = this.#format
    if (isQueryOnly(call.nvext)) this.#answerQuery()
    if (call.includeUsage) {
      this.stream.write(
        usageEvent(head, format.chunkObject, usageOfChoices(this.#context, this.choices)),
      )
    }
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

  #answerQuery(): void {
    const { head } = this.#context
    const format = this.#format
    this.choices.forEach((choice, index) => {
      const nvext = nvextOfChoice(this.#context, choice, index, null)
      if (nvext !== undefined) this.stream.write(nvextEvent(head, format.chunkObject, nvext))
    })
  }
}

interface ShownExtras {
  readonly usage?: string
  readonly nvext?: string
  readonly tokenIds?: readonly number[]
  readonly promptTokenIds?: readonly number[]
}

class StreamedChoice implements ChoiceOutput {
  readonly #plain: boolean
  readonly #stream: EventStream
  readonly #chunks: ChoiceChunks
  readonly #context: ReplyContext
  readonly #format: ReplyFormat
  readonly #index: number
  readonly #reply: StreamedReply
  #textLength = 0
  #toolCallCount = 0
  /** Inputs of calls of custom tools. */
  #inputs: Map<number, CustomToolInput> | null = null
  #nvextSent = false
  #promptIdsSent = false
  #tokenIdsSent = 0
  #echoes: boolean

  constructor(reply: StreamedReply, context: ReplyContext, format: ReplyFormat, index: number) {
    const { call, head } = context
    this.#context = context
    this.#format = format
    this.#index = index
    this.#stream = reply.stream
    this.#reply = reply
    this.#chunks = format.chunks(head, { index, includeUsage: call.includeUsage })
    this.#plain =
      !call.continuousUsage && call.nvext.extra_fields === undefined && !call.showsTokenIds
    this.#textLength = context.echoes[promptIndexOf(context, index)]?.length ?? 0
    this.#echoes = call.output.promptLogprobs !== undefined && context.echoes.length > 0
  }

  /** Undefined until the reply knows it. */
  get #sink(): ChoiceSink | undefined {
    return this.#reply.choices[this.#index]
  }

  text(text: string): void {
    if (this.#plain) this.#stream.write(this.#chunks.content(text))
    else this.#stream.write(this.#chunks.contentWith(text, this.#extras()))
  }

  textWithLogprobs(text: string, tokens: readonly TokenLogprobs[]): void {
    const { call } = this.#context
    const count = call.output.logprobs ?? 0
    if (this.#echoes) this.#echo(count)
    const logprobs = this.#format.logprobsJson(
      tokens,
      count,
      tokenTextsOf(this.#context),
      this.#textLength,
    )
    this.#textLength += text.length
    this.#stream.write(this.#chunks.contentWith(text, { ...this.#extras(), logprobs }))
  }

  part(event: OutputEvent): void {
    switch (event.kind) {
      case 'text':
        this.text(event.text)
        return
      case 'reasoning':
        this.#stream.write(
          this.#plain
            ? this.#chunks.reasoning(event.text)
            : this.#chunks.reasoning(event.text, this.#extras()),
        )
        return
      case 'tool-call-start':
        this.#startCall(event.index, event.name)
        return
      case 'tool-call-arguments': {
        const input = this.#inputs?.get(event.index)
        this.#callDelta(event.index, input === undefined ? event.text : input.push(event.text))
        return
      }
      case 'tool-call-end':
        this.#callDelta(event.index, this.#inputs?.get(event.index)?.end() ?? '')
    }
  }

  #startCall(index: number, name: string): void {
    this.#toolCallCount += 1
    const id = createToolCallId(this.#context.random)
    if (!this.#shows(index)) return
    const isCustom = this.#context.call.customTools.has(name)
    if (isCustom)
      (this.#inputs ??= new Map<number, CustomToolInput>()).set(index, new CustomToolInput())
    this.#stream.write(this.#chunks.toolCalls(toolCallStartJson(index, { id, name }, isCustom)))
  }

  /** Writes a delta of a call that is shown. */
  #callDelta(index: number, text: string): void {
    if (text === '' || !this.#shows(index)) return
    const calls = toolCallDeltaJson(index, text, this.#inputs?.has(index) === true)
    this.#stream.write(
      this.#plain ? this.#chunks.toolCalls(calls) : this.#chunks.toolCalls(calls, this.#extras()),
    )
  }

  /** Writes the prompt with its log-probabilities, once. */
  #echo(count: number): void {
    this.#echoes = false
    const { echoes, prompts } = this.#context
    const at = promptIndexOf(this.#context, this.#index)
    const logprobs = this.#sink?.promptLogprobs ?? []
    const echoed = { tokenIds: prompts[at]?.tokenIds ?? [], logprobs }
    const json = this.#format.logprobsJson([], count, tokenTextsOf(this.#context), 0, echoed)
    this.#stream.write(this.#chunks.contentWith(echoes[at] ?? '', { logprobs: json }))
  }

  finish(end: ChoiceEnd): void {
    if (isQueryOnly(this.#context.call.nvext)) return
    if (this.#echoes) this.#echo(this.#context.call.output.logprobs ?? 0)
    const sink = this.#sink
    const nvext =
      sink === undefined
        ? undefined
        : nvextOfChoice(this.#context, sink, this.#index, this.#rest(end))
    const reason = clientFinishReason(end.finish, this.#toolCallCount > 0)
    const usage = this.#runningUsage()
    this.#stream.write(
      this.#chunks.finish(reason, {
        ...this.#shownIds(end.completionTokenIds.slice(this.#tokenIdsSent)),
        ...(nvext === undefined ? {} : { nvext }),
        ...(usage === undefined ? {} : { usage }),
      }),
    )
  }

  /** Ids that earlier chunks contained are not repeated. */
  #rest(end: ChoiceEnd): ChoiceEnd {
    return { ...end, completionTokenIds: end.completionTokenIds.slice(this.#tokenIdsSent) }
  }

  /** The ids since the last chunk. */
  #newTokenIds(sink: ChoiceSink): readonly number[] {
    const ids = sink.tokenIds.slice(this.#tokenIdsSent)
    this.#tokenIdsSent += ids.length
    return ids
  }

  #extras(): ShownExtras {
    const usage = this.#runningUsage()
    const sink = this.#sink
    const ids = sink === undefined ? [] : this.#newTokenIds(sink)
    const nvext = sink === undefined ? undefined : this.#chunkNvext(sink, ids)
    return {
      ...this.#shownIds(ids),
      ...(usage === undefined ? {} : { usage }),
      ...(nvext === undefined ? {} : { nvext }),
    }
  }

  /** With `return_token_ids`: the ids of the prompt on the first chunk. */
  #shownIds(tokenIds: readonly number[]): ShownExtras {
    const { call, prompts } = this.#context
    if (!call.showsTokenIds) return {}
    if (this.#promptIdsSent) return { tokenIds }
    this.#promptIdsSent = true
    const prompt = prompts[promptIndexOf(this.#context, this.#index)]?.tokenIds ?? []
    return { tokenIds, promptTokenIds: Array.from(prompt) }
  }

  #chunkNvext(sink: ChoiceSink, ids: readonly number[]): string | undefined {
    if (this.#nvextSent) return nvextOfTokens(this.#context, ids)
    this.#nvextSent = true
    return nvextOfChoice(this.#context, sink, this.#index, null, ids)
  }

  #runningUsage(): string | undefined {
    const sink = this.#sink
    if (!this.#context.call.continuousUsage || sink === undefined) return undefined
    const usage = usageOfChoice(this.#context, sink, this.#index)
    return usageJson({ ...usage, reasoningTokens: sink.reasoningTokens })
  }

  #shows(callIndex: number): boolean {
    return callIndex === 0 || this.#context.call.allowsSeveralCalls
  }
}
