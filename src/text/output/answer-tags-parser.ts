/**
 * Removes the tags that some models put around the answer after their reasoning: `<answer>` of Hunyuan, `<response>`
 * of Ernie. Only a tag at the very beginning of the answer, and its closing tag, are removed.
 */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

export class AnswerTagsParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #inner: OutputParser
  readonly #open: string
  readonly #closing: MarkerScanner
  #place: 'begin' | 'opened' | 'inside' | 'closed' | 'plain' = 'begin'
  #held = ''

  constructor(inner: OutputParser, tag: string) {
    this.#inner = inner
    this.#open = `<${tag}>`
    this.#closing = new MarkerScanner([`\n</${tag}>`, `</${tag}>`])
    this.markers = [...inner.markers, this.#open, `</${tag}>`]
  }

  push(text: string): readonly OutputEvent[] {
    return this.#pass(this.#inner.push(text))
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const events = this.#pass(this.#inner.flush(isCut))
    const rest = this.#place === 'begin' || this.#place === 'inside' ? this.#held : ''
    this.#held = ''
    return rest === '' ? events : [...events, { kind: 'text', text: rest }]
  }

  #pass(events: readonly OutputEvent[]): readonly OutputEvent[] {
    if (this.#place === 'plain') return events
    return events.flatMap<OutputEvent>((event) => {
      if (event.kind !== 'text') return [event]
      const text = this.#shown(event.text)
      return text === '' ? [] : [{ kind: 'text', text }]
    })
  }

  #shown(text: string): string {
    this.#held += text
    if (this.#place === 'begin' && !this.#hasBegun()) return ''
    if (this.#place === 'opened') {
      if (this.#held === '') return ''
      if (this.#held.startsWith('\n')) this.#held = this.#held.slice(1)
      this.#place = 'inside'
    }
    let shown = ''
    if (this.#place === 'inside') {
      const scan = this.#closing.scan(this.#held)
      shown = scan.kind === 'text' ? scan.text : scan.before
      this.#held = scan.kind === 'text' ? scan.held : scan.after
      if (scan.kind === 'marker') this.#place = 'closed'
    }
    // Blanks after the closing tag are not part of the answer; other text is.
    if (this.#place === 'closed' && this.#held.trim() !== '') this.#place = 'plain'
    if (this.#place === 'plain') {
      shown += this.#held
      this.#held = ''
    }
    return shown
  }

  /** False: the text so far may still become the opening tag. */
  #hasBegun(): boolean {
    const begin = this.#held.trimStart()
    if (begin.startsWith(this.#open)) {
      this.#held = begin.slice(this.#open.length)
      this.#place = 'opened'
      return true
    }
    if (this.#open.startsWith(begin)) return false
    this.#place = 'plain'
    return true
  }
}
