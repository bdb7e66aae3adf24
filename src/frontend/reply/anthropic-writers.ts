/**
 * Replies in the form of the Anthropic API: a message of content blocks, or the events that build it.
 */
import type { BatonError } from '../../base/index.ts'
import {
  anthropicErrorEvent,
  anthropicEvent,
  anthropicMessage,
  anthropicMessageJson,
  asciiJson,
  messageDelta,
  textDelta,
  textDeltaOpening,
  toolUseJson,
} from '../../api/index.ts'
import type { AnthropicEnd } from '../../api/index.ts'
import type { OutputEvent } from '../../text/index.ts'
import { createToolCallId } from '../http/request-id.ts'
import type { ChoiceEnd, ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import { EventStream } from './event-stream.ts'
import { usageOfChoices } from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import type { ReplyWriters, StreamedWriter, WholeWriter } from './reply-writer.ts'

export const ANTHROPIC_WRITERS: ReplyWriters = {
  idPrefix: 'msg_',
  streamed: (context) => new AnthropicReply(context),
  whole: (context) => new AnthropicReply(context),
}

type Block =
  | { readonly kind: 'text' | 'thinking'; text: string }
  | { readonly kind: 'tool'; readonly id: string; readonly name: string; text: string }

const BLOCK_DELTA = 'content_block_delta'

class AnthropicReply implements StreamedWriter, WholeWriter, ChoiceOutput {
  readonly stream = new EventStream()
  readonly #context: ReplyContext
  readonly #choices: ChoiceSink[] = []
  readonly #blocks: Block[] = []
  #open: Block | null = null
  #deltaOpening = ''
  #end: AnthropicEnd | null = null

  constructor(context: ReplyContext) {
    this.#context = context
  }

  /** The API has no `n`, so there is one choice, and this is its output. */
  createOutput(): ChoiceOutput {
    return this
  }

  addChoice(choice: ChoiceSink): void {
    this.#choices.push(choice)
  }

  began(): void {
    const usage = usageOfChoices(this.#context, this.#choices)
    this.#event('message_start', {
      message: anthropicMessage(this.#context.head, null, usage),
    })
    this.#event('ping')
  }

  text(text: string): void {
    this.#prose('text', text)
  }

  textWithLogprobs(text: string): void {
    if (text !== '') this.text(text)
  }

  part(event: OutputEvent): void {
    switch (event.kind) {
      case 'text':
        this.#prose('text', event.text)
        return
      case 'reasoning':
        this.#prose('thinking', event.text)
        return
      case 'tool-call-start':
        if (event.index > 0 && !this.#context.call.allowsSeveralCalls) return
        this.#openTool(event.name)
        return
      case 'tool-call-arguments':
        if (this.#open?.kind !== 'tool') return
        this.#open.text += event.text
        this.#event(BLOCK_DELTA, {
          index: this.#blocks.length - 1,
          delta: { type: 'input_json_delta', partial_json: event.text },
        })
        return
      case 'tool-call-end':
        this.#close()
    }
  }

  finish(end: ChoiceEnd): void {
    this.#close()
    this.#end = {
      finish: end.finish,
      calledTools: this.#blocks.some((block) => block.kind === 'tool'),
      ...(end.stopReason === undefined ? {} : { stopReason: end.stopReason }),
    }
  }

  completed(): void {
    if (!this.#context.call.stream || this.#end === null) return
    this.stream.write(messageDelta(this.#end, usageOfChoices(this.#context, this.#choices)))
    this.#event('message_stop')
    this.stream.end()
  }

  brokeOff(error: BatonError): void {
    this.stream.write(anthropicErrorEvent(error))
    this.stream.end()
  }

  keepAlive(): void {
    this.#event('ping')
  }

  body(): string {
    const usage = usageOfChoices(this.#context, this.#choices)
    const blocks = this.#blocks.map(blockJson)
    return anthropicMessageJson(this.#context.head, blocks, this.#end, usage)
  }

  #event(type: string, fields: Readonly<Record<string, unknown>> = {}): void {
    if (this.#context.call.stream) this.stream.write(anthropicEvent(type, fields))
  }

  #prose(kind: 'text' | 'thinking', text: string): void {
    const block = this.#open?.kind === kind ? this.#open : this.#openProse(kind)
    block.text += text
    if (this.#context.call.stream) this.stream.write(textDelta(this.#deltaOpening, text))
  }

  #openProse(kind: 'text' | 'thinking'): Block {
    const block: Block = { kind, text: '' }
    this.#start(block, proseBlock(kind, ''))
    const index = this.#blocks.length - 1
    this.#deltaOpening = textDeltaOpening(index, kind === 'text' ? 'text_delta' : 'thinking_delta')
    return block
  }

  #openTool(name: string): void {
    const id = createToolCallId(this.#context.random).replace(/^call_/, 'toolu_')
    this.#start({ kind: 'tool', id, name, text: '' }, { type: 'tool_use', id, name, input: {} })
  }

  #start(block: Block, shown: unknown): void {
    this.#close()
    this.#open = block
    this.#blocks.push(block)
    this.#event('content_block_start', { index: this.#blocks.length - 1, content_block: shown })
  }

  #close(): void {
    if (this.#open === null) return
    this.#open = null
    this.#event('content_block_stop', { index: this.#blocks.length - 1 })
  }
}

function proseBlock(kind: 'text' | 'thinking', text: string): Record<string, unknown> {
  return kind === 'text'
    ? { type: 'text', text }
    : { type: 'thinking', thinking: text, signature: '' }
}

function blockJson(block: Block): string {
  return block.kind === 'tool'
    ? toolUseJson({ id: block.id, name: block.name, arguments: block.text })
    : asciiJson(proseBlock(block.kind, block.text))
}
