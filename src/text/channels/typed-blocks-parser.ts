/**
 * The format of Inkling: blocks that say what they hold. Thoughts are reasoning, text is text, and an invocation in JSON a call,
 * whose name stands a second time before the block; what else is between blocks says nothing.
 *
 *     <|message_model|><|content_thinking|>…<|end_message|><|message_model|>name<|content_invoke_tool_json|>{…}<|end_message|>
 */
import { MarkerScanner } from '../output/marker-scanner.ts'
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
  readonly #scanner = new MarkerScanner(MARKERS)
  /** Between blocks there is no text, but an output that begins without one is text. */
  #place: 'text' | 'reasoning' | 'calls' | 'header' = 'text'
  #held = ''

  /** `calls`: reads sections of invocations. */
  constructor(calls: OutputParser) {
    this.#calls = calls
    this.markers = [...new Set([...MARKERS, ...calls.markers])]
  }

  push(text: string): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    let rest = this.#held + text
    for (;;) {
      const scan = this.#scanner.scan(rest)
      if (scan.kind === 'text') {
        this.#take(scan.text, events)
        this.#held = scan.held
        return events
      }
      this.#take(scan.before, events)
      this.#mark(scan.marker, events)
      rest = scan.after
    }
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#take(this.#held, events)
    this.#held = ''
    return [...events, ...this.#calls.flush(isCut)]
  }

  #take(text: string, events: OutputEvent[]): void {
    if (text === '' || this.#place === 'header') return
    if (this.#place === 'calls') events.push(...this.#calls.push(text))
    else events.push({ kind: this.#place, text })
  }

  #mark(marker: string, events: OutputEvent[]): void {
    if (this.#place === 'calls') {
      // Other marks in a call are what the model wrote about.
      this.#take(marker, events)
      if (marker === END) this.#place = 'header'
      return
    }
    this.#place = BLOCKS[marker] ?? 'header'
    if (marker === CALL) this.#take(marker, events)
  }
}
