/** Separates reasoning between an opening and a closing tag from the text; the tags themselves are never emitted. */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

/** The tags of a format. Shared by all streams that speak it: a scanner has no state, and so stays in the cache. */
export class ReasoningTags {
  /** Most formats have one of each. */
  readonly opens: readonly string[]
  readonly closes: readonly string[]
  /** Control tokens that the tags consist of. */
  readonly tokens: readonly string[]
  /** A closing tag without an opening one is dropped as well. */
  readonly outside: MarkerScanner
  readonly inside: MarkerScanner

  constructor(
    opens: string | readonly string[],
    closes: string | readonly string[],
    tokens?: readonly string[],
  ) {
    this.opens = typeof opens === 'string' ? [opens] : opens
    this.closes = typeof closes === 'string' ? [closes] : closes
    const all = [...this.opens, ...this.closes]
    this.tokens = tokens ?? all
    this.outside = new MarkerScanner(all)
    this.inside = new MarkerScanner(this.closes)
  }
}

export class ReasoningParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #tags: ReasoningTags
  #isInside: boolean
  /** Inside from the start, and only blanks so far: an opening tag may still follow, and says nothing new. */
  #mayOpenAgain: boolean
  #held = ''

  /** `startsInside`: the template has already written the opening tag, or the model leaves it out. */
  constructor(tags: ReasoningTags, startsInside: boolean) {
    this.markers = tags.tokens
    this.#tags = tags
    this.#isInside = startsInside
    this.#mayOpenAgain = startsInside
  }

  push(text: string): readonly OutputEvent[] {
    if (this.#held === '' && !this.#mayOpenAgain && text !== '') {
      if (this.#scanner().passes(text))
        return [{ kind: this.#isInside ? 'reasoning' : 'text', text }]
    }
    const events: OutputEvent[] = []
    let rest = this.#held + text
    if (this.#mayOpenAgain) {
      const begin = rest.trimStart()
      const open = this.#tags.opens.find((tag) => tag.startsWith(begin) || begin.startsWith(tag))
      if (open !== undefined && begin.length < open.length) {
        this.#held = rest
        return events
      }
      this.#mayOpenAgain = false
      if (open !== undefined) rest = begin.slice(open.length)
    }
    for (;;) {
      const scan = this.#scanner().scan(rest)
      if (scan.kind === 'text') {
        this.#emit(scan.text, events)
        this.#held = scan.held
        return events
      }
      this.#emit(scan.before, events)
      this.#isInside = this.#tags.opens.includes(scan.marker)
      rest = scan.after
    }
  }

  flush(): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#emit(this.#held, events)
    this.#held = ''
    return events
  }

  #scanner(): MarkerScanner {
    return this.#isInside ? this.#tags.inside : this.#tags.outside
  }

  #emit(text: string, events: OutputEvent[]): void {
    if (text !== '') events.push({ kind: this.#isInside ? 'reasoning' : 'text', text })
  }
}
