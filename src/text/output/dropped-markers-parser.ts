/** Removes markers without meaning that a model puts around its answer: Cohere's `<|START_TEXT|>`, Kimi K3's channels. */
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

export class DroppedMarkersParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #inner: OutputParser
  readonly #dropped: MarkerScanner
  #held = ''

  /** `tokens`: the control tokens of which the markers consist. */
  constructor(
    inner: OutputParser,
    dropped: readonly string[],
    tokens: readonly string[] = dropped,
  ) {
    this.#inner = inner
    this.#dropped = new MarkerScanner(dropped)
    this.markers = [...new Set([...inner.markers, ...tokens])]
  }

  push(text: string): readonly OutputEvent[] {
    return this.#pass(this.#inner.push(text))
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const events = this.#pass(this.#inner.flush(isCut))
    const rest = this.#held
    this.#held = ''
    return rest === '' ? events : [...events, { kind: 'text', text: rest }]
  }

  #pass(events: readonly OutputEvent[]): readonly OutputEvent[] {
    return events.flatMap<OutputEvent>((event) => {
      if (event.kind !== 'text') return [event]
      const text = this.#shown(event.text)
      return text === '' ? [] : [{ kind: 'text', text }]
    })
  }

  #shown(text: string): string {
    let shown = ''
    let rest = this.#held + text
    for (;;) {
      const scan = this.#dropped.scan(rest)
      if (scan.kind === 'text') {
        this.#held = scan.held
        return shown + scan.text
      }
      shown += scan.before
      rest = scan.after
    }
  }
}
