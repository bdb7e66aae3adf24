/**
 * Replies in the form of the Responses API: an object with a list of output items, or the events that build it.
 *
 * The items follow each other: reasoning, the message, function calls. `ItemLog` opens and closes them and
 * serves both forms; a whole reply is a stream whose events are not sent.
 */
import type { BatonError } from '../../base/index.ts'
import {
  asciiJson,
  chatLogprobsEntries,
  customCallItem,
  CustomToolInput,
  DONE_EVENT,
  functionCallItem,
  KEEP_ALIVE_COMMENT,
  messageItem,
  reasoningItem,
  reasoningPart,
  responseDeltaEvent,
  responseEvent,
  responseObject,
  textPart,
} from '../../api/index.ts'
import type { ResponseStatus, ToolCallReply, ToolPlace } from '../../api/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { OutputEvent } from '../../text/index.ts'
import { createToolCallId } from '../http/request-id.ts'
import type { ChoiceEnd, ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import { EventStream } from './event-stream.ts'
import { tokenTextsOf, usageOfChoices } from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import type { ReplyWriters, StreamedWriter, WholeWriter } from './reply-writer.ts'
import type { EventLog } from '../state/event-log.ts'

type Echo = Readonly<Record<string, unknown>>

/** How tool calls are shown. */
interface ResponseTools {
  readonly customTools: ReadonlySet<string>
  readonly toolPlaces: ReadonlyMap<string, ToolPlace>
}

interface StoredReply {
  /** Called with the whole response when it has ended. */
  readonly onEnded?: (response: Readonly<Record<string, unknown>>) => void
  /** Receives the events instead of the client's connection; it has the first ones already. */
  readonly events?: EventLog | undefined
}

export function responsesWriters(
  echo: Echo,
  tools: ResponseTools,
  stored: StoredReply = {},
): ReplyWriters {
  return {
    idPrefix: 'resp_',
    streamed: (context) => new ResponsesReply(context, echo, tools, stored),
    whole: (context) => new ResponsesReply(context, echo, tools, stored),
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

type OpenItem =
  | {
      readonly kind: 'message' | 'reasoning'
      readonly id: string
      text: string
      /** Of the message's tokens, if requested. */
      readonly logprobs: unknown[]
    }
  | {
      readonly kind: 'call'
      readonly id: string
      readonly call: ToolCallBuilder
      /** Set for a tool whose input is text. */
      readonly input: CustomToolInput | null
    }

type ToolCallBuilder = { -readonly [K in keyof ToolCallReply]: ToolCallReply[K] }

class ResponsesReply implements StreamedWriter, WholeWriter, ChoiceOutput {
  readonly stream = new EventStream()
  readonly #context: ReplyContext
  readonly #echo: Echo
  readonly #tools: ResponseTools
  readonly #output: unknown[] = []
  readonly #choices: ChoiceSink[] = []
  #open: OpenItem | null = null
  /** Log-probabilities of tokens whose text has not arrived. */
  readonly #scored: unknown[] = []
  #sequence = 0
  #itemCount = 0
  #status: ResponseStatus = 'in_progress'
  readonly #stored: StoredReply

  constructor(context: ReplyContext, echo: Echo, tools: ResponseTools, stored: StoredReply) {
    this.#stored = stored
    this.#sequence = stored.events?.size ?? 0
    this.#context = context
    this.#tools = tools
    this.#echo = echo
  }

  /** The API has no `n`, so there is one choice, and this is its output. */
  createOutput(): ChoiceOutput {
    return this
  }

  addChoice(choice: ChoiceSink): void {
    this.#choices.push(choice)
  }

  began(): void {
    if (this.#stored.events === undefined) {
      this.#event('response.created', { response: this.#object() })
    }
    this.#event('response.in_progress', { response: this.#object() })
  }

  text(text: string): void {
    const item = this.#need('message')
    item.text += text
    const logprobs = this.#scored.splice(0)
    item.logprobs.push(...logprobs)
    this.#delta('response.output_text.delta', item.id, text, logprobs)
  }

  /** Tokens without text of their own are shown with the following text. */
  textWithLogprobs(text: string, tokens: readonly TokenLogprobs[]): void {
    const { call } = this.#context
    const open = this.#open
    const isOfMessage =
      text !== '' || open?.kind === 'message' || (open === null && this.#output.length === 0)
    // Log-probabilities of reasoning and calls have no field in a response.
    if (!isOfMessage) return
    this.#scored.push(
      ...chatLogprobsEntries(tokens, call.output.logprobs ?? 0, tokenTextsOf(this.#context)),
    )
    if (text !== '') this.text(text)
  }

  part(event: OutputEvent): void {
    switch (event.kind) {
      case 'text':
        this.text(event.text)
        return
      case 'reasoning': {
        this.#scored.length = 0
        const item = this.#need('reasoning')
        item.text += event.text
        this.#delta('response.reasoning_text.delta', item.id, event.text)
        return
      }
      case 'tool-call-start':
        if (event.index === 0 || this.#context.call.allowsSeveralCalls) this.#openCall(event.name)
        return
      case 'tool-call-arguments':
        this.#callArguments(event.text)
        return
      case 'tool-call-end':
        // Incomplete JSON may have been cut off by the token limit; only the end of the choice tells.
        if (this.#open?.kind === 'call' && isJson(this.#open.call.arguments)) this.#close()
    }
  }

  finish(end: ChoiceEnd): void {
    const status = end.finish === 'length' ? 'incomplete' : 'completed'
    this.#close(status)
    this.#status = status
  }

  completed(): void {
    this.#stored.onEnded?.(this.#object())
    this.#event(`response.${this.#status}`, { response: this.#object() })
    this.stream.write(DONE_EVENT)
    this.stream.end()
  }

  brokeOff(error: BatonError): void {
    this.#close('incomplete')
    this.#status = 'failed'
    this.#event('response.failed', { response: this.#object(error) })
    this.stream.write(DONE_EVENT)
    this.stream.end()
  }

  keepAlive(): void {
    this.stream.write(KEEP_ALIVE_COMMENT)
  }

  body(): string {
    return asciiJson(this.#object())
  }

  #object(error?: BatonError): Record<string, unknown> {
    const isOver = this.#status !== 'in_progress'
    return responseObject({
      head: this.#context.head,
      echo: this.#echo,
      status: this.#status,
      output: this.#output,
      ...(isOver ? { usage: usageOfChoices(this.#context, this.#choices) } : {}),
      ...(error === undefined ? {} : { error }),
    })
  }

  #event(type: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#hasEvents) this.#write(responseEvent(type, this.#sequence, fields))
  }

  #delta(type: string, itemId: string, delta: string, logprobs: readonly unknown[] = []): void {
    if (!this.#hasEvents) return
    const place = { itemId, outputIndex: this.#output.length }
    this.#write(responseDeltaEvent(type, this.#sequence, place, delta, logprobs))
  }

  /** A whole reply has no events; its stream is never opened. */
  get #hasEvents(): boolean {
    return this.#stored.events !== undefined || this.#context.call.stream
  }

  #write(event: string): void {
    this.#sequence += 1
    const { events } = this.#stored
    if (events === undefined) this.stream.write(event)
    else events.append(event)
  }

  #newId(prefix: string): string {
    this.#itemCount += 1
    return `${prefix}_${this.#context.head.id.slice('resp_'.length)}_${this.#itemCount}`
  }

  #need(kind: 'message' | 'reasoning'): Extract<OpenItem, { text: string }> {
    const open = this.#open
    if (open !== null && open.kind === kind) return open
    this.#close()
    const id = this.#newId(kind === 'message' ? 'msg' : 'rs')
    const item = { kind, id, text: '', logprobs: [] }
    this.#open = item
    const shown =
      kind === 'message'
        ? messageItem(item.id, '', 'in_progress')
        : reasoningItem(item.id, '', 'in_progress')
    this.#event('response.output_item.added', { output_index: this.#output.length, item: shown })
    const part = kind === 'message' ? textPart('') : reasoningPart('')
    this.#event('response.content_part.added', { ...this.#place(item.id), part })
    return item
  }

  #openCall(name: string): void {
    this.#close()
    this.#scored.length = 0
    const call = { id: createToolCallId(this.#context.random), name, arguments: '' }
    const input = this.#tools.customTools.has(name) ? new CustomToolInput() : null
    const id = this.#newId(input === null ? 'fc' : 'ctc')
    this.#open = { kind: 'call', id, call, input }
    this.#event('response.output_item.added', {
      output_index: this.#output.length,
      item:
        input === null
          ? functionCallItem(id, call, 'in_progress', this.#tools.toolPlaces.get(call.name))
          : customCallItem(id, call, '', 'in_progress'),
    })
  }

  #callArguments(text: string): void {
    if (this.#open?.kind !== 'call') return
    const { call, id, input } = this.#open
    call.arguments += text
    const delta = input === null ? text : input.push(text)
    if (delta !== '') this.#callDelta(input, id, delta)
  }

  #callDelta(input: CustomToolInput | null, itemId: string, delta: string): void {
    const what = input === null ? 'function_call_arguments' : 'custom_tool_call_input'
    this.#event(`response.${what}.delta`, {
      item_id: itemId,
      output_index: this.#output.length,
      delta,
    })
  }

  #close(status: 'completed' | 'incomplete' = 'completed'): void {
    const open = this.#open
    if (open === null) return
    this.#open = null
    const item = this.#closedItem(open, status)
    this.#event('response.output_item.done', { output_index: this.#output.length, item })
    this.#output.push(item)
  }

  #closedItem(open: OpenItem, status: 'completed' | 'incomplete'): Record<string, unknown> {
    switch (open.kind) {
      case 'message': {
        const place = this.#place(open.id)
        // Those of the last tokens, such as the end-of-turn token.
        open.logprobs.push(...this.#scored.splice(0))
        const { text, logprobs } = open
        this.#event('response.output_text.done', { ...place, text, logprobs })
        this.#event('response.content_part.done', { ...place, part: textPart(text, logprobs) })
        return messageItem(open.id, text, status, logprobs)
      }
      case 'reasoning': {
        const place = this.#place(open.id)
        this.#event('response.reasoning_text.done', { ...place, text: open.text })
        this.#event('response.content_part.done', { ...place, part: reasoningPart(open.text) })
        return reasoningItem(open.id, open.text, status)
      }
      case 'call': {
        const at = { item_id: open.id, output_index: this.#output.length }
        if (open.input !== null) {
          const rest = open.input.end()
          if (rest !== '') this.#callDelta(open.input, open.id, rest)
          const { text } = open.input
          this.#event('response.custom_tool_call_input.done', { ...at, input: text })
          return customCallItem(open.id, open.call, text, status)
        }
        this.#event('response.function_call_arguments.done', {
          ...at,
          name: this.#tools.toolPlaces.get(open.call.name)?.name ?? open.call.name,
          arguments: open.call.arguments,
        })
        const place = this.#tools.toolPlaces.get(open.call.name)
        return functionCallItem(open.id, open.call, status, place)
      }
    }
  }

  #place(itemId: string): Record<string, unknown> {
    return { item_id: itemId, output_index: this.#output.length, content_index: 0 }
  }
}
