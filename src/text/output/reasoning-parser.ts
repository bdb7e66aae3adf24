/** Separates reasoning between an opening and a closing tag from the text; the tags themselves are never emitted. */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

export interface ReasoningTags {
  readonly open: string
  readonly close: string
  /** The output begins inside: the template has already written the opening tag, or the model leaves it out. */
  readonly startsInside: boolean
}

export class ReasoningParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #open: string
  readonly #outside: MarkerScanner
  readonly #inside: MarkerScanner
  #isInside: boolean
  /** Inside from the start, and only blanks so far: an opening tag may still follow, and says nothing new. */
  #mayOpenAgain: boolean
  #held = ''

  constructor(tags: ReasoningTags) {
    this.markers = [tags.open, tags.close]
    this.#open = tags.open
    // A closing tag without an opening one is dropped as well.
    this.#outside = new MarkerScanner([tags.open, tags.close])
    this.#inside = new MarkerScanner([tags.close])
    this.#isInside = tags.startsInside
    this.#mayOpenAgain = tags.startsInside
  }

  push(text: string): readonly OutputEvent[] {
    if (this.#held === '' && !this.#mayOpenAgain && text !== '') {
      const scanner = this.#isInside ? this.#inside : this.#outside
      if (scanner.passes(text)) return [{ kind: this.#isInside ? 'reasoning' : 'text', text }]
    }
    const events: OutputEvent[] = []
    let rest = this.#held + text
    if (this.#mayOpenAgain) {
      const begin = rest.trimStart()
      if (this.#open.startsWith(begin)) {
        this.#held = rest
        if (begin !== this.#open) return events
      }
      this.#mayOpenAgain = false
      if (begin.startsWith(this.#open)) rest = begin.slice(this.#open.length)
    }
    for (;;) {
      const scan = (this.#isInside ? this.#inside : this.#outside).scan(rest)
      if (scan.kind === 'text') {
        this.#emit(scan.text, events)
        this.#held = scan.held
        return events
      }
      this.#emit(scan.before, events)
      this.#isInside = scan.marker === this.#open
      rest = scan.after
    }
  }

  flush(): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#emit(this.#held, events)
    this.#held = ''
    return events
  }

  #emit(text: string, events: OutputEvent[]): void {
    if (text !== '') events.push({ kind: this.#isInside ? 'reasoning' : 'text', text })
  }
}
