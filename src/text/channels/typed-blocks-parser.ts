/**
 * Parser for the output format of Inkling: blocks with a type. `content_thinking` is reasoning, `content_text` is
 * text, and an invocation in JSON is a tool call, whose name also precedes the block. Anything else between blocks is
 * ignored.
 *
 *   <|message_model|><|content_thinking|>…<|end_message|><|message_model|>name<|content_invoke_tool_json|>{…}<|end_message|>
 */
import { MarkerStream } from '../output/marker-stream.ts'
import type { OutputEvent, OutputParser } from '../output/output-event.ts'

const MESSAGE = '<|message_model|>'
const CALL = '<|content_invoke_tool_json|>'
const END = '<|end_message|>'
const BLOCKS: Readonly<Record<string, 'text' | 'reasoning' | 'calls'>> = {
  '<|content_text|>': 'text',
  '<|content_thinking|>': 'reasoning',
  [CALL]: 'calls',
}
const MARKERS = [MESSAGE, END, '<|content_model_end_sampling|>', ...Object.keys(BLOCKS)]

export class TypedBlocksParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #calls: OutputParser
  readonly #stream = new MarkerStream<OutputEvent[]>(MARKERS, {
    onText: (text, events) => this.#take(text, events),
    onMarker: (marker, events) => this.#mark(marker, events),
  })
  /** Starts as text, because an output may begin without a block; between blocks there is no text. */
  #place: 'text' | 'reasoning' | 'calls' | 'header' = 'text'

  /** `calls`: parser for invocation blocks. */
  constructor(calls: OutputParser) {
    this.#calls = calls
    this.markers = [...new Set([...MARKERS, ...calls.markers])]
  }

  push(text: string): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.push(text, events)
    return events
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.flush(events)
    return [...events, ...this.#calls.flush(isCut)]
  }

  #take(text: string, events: OutputEvent[]): void {
    if (text === '' || this.#place === 'header') return
    if (this.#place === 'calls') events.push(...this.#calls.push(text))
    else events.push({ kind: this.#place, text })
  }

  #mark(marker: string, events: OutputEvent[]): void {
    if (this.#place === 'calls') {
      // Other markers inside a call are part of its content.
      this.#take(marker, events)
      if (marker === END) this.#place = 'header'
      return
    }
    this.#place = BLOCKS[marker] ?? 'header'
    if (marker === CALL) this.#take(marker, events)
  }
}
