/**
 * A stream of text with markers: passes text and markers on in their order, and holds back what may become a marker.
 * `Out` is what a listener writes to, so that a token needs no closure.
 */
import { MarkerScanner } from './marker-scanner.ts'

interface MarkerListener<Out> {
  /** May be empty. */
  onText(text: string, out: Out): void
  onMarker(marker: string, out: Out): void
}

export class MarkerStream<Out> {
  readonly #scanner: MarkerScanner
  readonly #listener: MarkerListener<Out>
  #held = ''

  constructor(markers: readonly string[], listener: MarkerListener<Out>) {
    this.#scanner = new MarkerScanner(markers)
    this.#listener = listener
  }

  push(text: string, out: Out): void {
    let rest = this.#held + text
    for (;;) {
      const scan = this.#scanner.scan(rest)
      if (scan.kind === 'text') {
        this.#listener.onText(scan.text, out)
        this.#held = scan.held
        return
      }
      this.#listener.onText(scan.before, out)
      this.#listener.onMarker(scan.marker, out)
      rest = scan.after
    }
  }

  /** The stream has ended: what was held back is text. */
  flush(out: Out): void {
    this.#listener.onText(this.#held, out)
    this.#held = ''
  }
}
