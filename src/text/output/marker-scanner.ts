/**
 * Finds the first of several markers in a stream of text and withholds a suffix that may become one. No marker may be
 * a prefix of another.
 */
import { UnitSet } from '../detokenize/unit-set.ts'

type Scan =
  | {
      readonly kind: 'marker'
      readonly before: string
      readonly marker: string
      readonly after: string
    }
  /** No marker so far: `text` is certain, `held` must be put before the next text. */
  | { readonly kind: 'text'; readonly text: string; readonly held: string }

export class MarkerScanner {
  readonly #markers: readonly string[]
  readonly #firstUnits = new UnitSet()
  readonly #lengthMax: number

  constructor(markers: readonly string[]) {
    this.#markers = markers
    for (const marker of markers) this.#firstUnits.add(marker.charCodeAt(0))
    this.#lengthMax = Math.max(0, ...markers.map((marker) => marker.length))
  }

  /** True if the text cannot contain or begin a marker: the frequent case, and cheap to check. */
  passes(text: string): boolean {
    return !this.#firstUnits.occursIn(text)
  }

  scan(text: string): Scan {
    let at = -1
    let found = ''
    for (const marker of this.#markers) {
      const index = text.indexOf(marker)
      if (index >= 0 && (at < 0 || index < at)) {
        at = index
        found = marker
      }
    }
    if (at >= 0) {
      const after = text.slice(at + found.length)
      return { kind: 'marker', before: text.slice(0, at), marker: found, after }
    }
    const open = this.#openAt(text)
    return { kind: 'text', text: text.slice(0, open), held: text.slice(open) }
  }

  /** Index of an incomplete marker at the end of the text, otherwise its length. */
  #openAt(text: string): number {
    for (let at = Math.max(0, text.length - this.#lengthMax + 1); at < text.length; at++) {
      if (!this.#firstUnits.has(text.charCodeAt(at))) continue
      const end = text.slice(at)
      if (this.#markers.some((marker) => marker.startsWith(end))) return at
    }
    return text.length
  }
}
