/** Separates reasoning, which is between an opening and a closing tag, from text. The tags are never emitted. */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

interface ReasoningTagOptions {
  /** Control tokens of which the tags consist, if the tags are not single tokens. */
  readonly tokens?: readonly string[]
  /** Markers that end reasoning without a closing tag and are then parsed as usual: the start of a call or an answer. */
  readonly breaks?: readonly string[]
  /** Decides whether such a marker really is one, since reasoning may mention it. Absent: always. */
  readonly isBreak?: (behind: string) => 'yes' | 'no' | 'undecided'
}

/** The tags of a format, shared by all streams: scanners are stateless, and stay in the CPU cache. */
export class ReasoningTags {
  /** Most formats have one of each. */
  readonly opens: readonly string[]
  readonly closes: readonly string[]
  /** Control tokens of which the tags consist. */
  readonly tokens: readonly string[]
  /** Also removes a closing tag without an opening one. */
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
  /** Inside from the start, and only blanks so far: a redundant opening tag may follow. */
  #mayOpenAgain: boolean
  #held = ''

  /** `startsInside`: the template has written the opening tag, or the model omits it. */
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
