/** Separates reasoning between an opening and a closing tag from the text; the tags themselves are never emitted. */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

interface ReasoningTagOptions {
  /** Control tokens that the tags consist of, when they are no tokens themselves. */
  readonly tokens?: readonly string[]
  /** What ends a thought whose closing tag the model forgot, and is read as what it is: the begin of a call, of an answer. */
  readonly breaks?: readonly string[]
  /** Whether what follows such a mark is what it begins; a thought may also write about it. Absent: always. */
  readonly isBreak?: (behind: string) => 'yes' | 'no' | 'undecided'
}

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
  readonly isBreak: (behind: string) => 'yes' | 'no' | 'undecided'

  constructor(
    opens: string | readonly string[],
    closes: string | readonly string[],
    options: ReasoningTagOptions = {},
  ) {
    this.opens = typeof opens === 'string' ? [opens] : opens
    this.closes = typeof closes === 'string' ? [closes] : closes
    const all = [...this.opens, ...this.closes]
    this.tokens = options.tokens ?? all
    this.outside = new MarkerScanner(all)
    this.isBreak = options.isBreak ?? (() => 'yes')
    this.inside = new MarkerScanner([...this.closes, ...(options.breaks ?? [])])
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
      if (this.#isInside && !this.#tags.closes.includes(scan.marker)) {
        const verdict = this.#tags.isBreak(scan.after)
        if (verdict === 'undecided') {
          this.#held = scan.marker + scan.after
          return events
        }
        if (verdict === 'no') this.#emit(scan.marker, events)
        this.#isInside = verdict === 'no'
        rest = verdict === 'no' ? scan.after : scan.marker + scan.after
        continue
      }
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
