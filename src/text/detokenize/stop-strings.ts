/**
 * Looks for stop strings in a stream of text. What may be the beginning of one is withheld until it is decided.
 *
 * The answer does not depend on how the text is cut into pushes: of several stop strings the one that ends first
 * counts, and among those that end together the longest.
 */
import { UnitSet } from './unit-set.ts'

export interface StopStringsOptions {
  /** The stop string itself is part of the output. */
  readonly includeInOutput?: boolean
  /** A stop string that ends within the first so many tokens is plain text. */
  readonly minTokens?: number
}

interface StopResult {
  readonly emit: string
  /** The stop string that was found; nothing more may be pushed then. */
  readonly stopped: string | null
}

const NOTHING_HELD = ''

export class StopStrings {
  readonly #stops: readonly string[]
  readonly #includeInOutput: boolean
  readonly #minTokens: number
  readonly #heldMax: number
  /** Every UTF-16 unit with which a withheld text can end: most texts end in none of them. */
  readonly #openUnits = new UnitSet()
  readonly #firstUnits = new UnitSet()
  #held = NOTHING_HELD
  #tokens = 0
  /** Reused for the common answer, so that a token costs no object: valid until the next call. */
  readonly #result = { emit: '', stopped: null as string | null }

  constructor(stops: readonly string[], options: StopStringsOptions = {}) {
    this.#stops = stops.filter((stop) => stop.length > 0)
    this.#includeInOutput = options.includeInOutput ?? false
    this.#minTokens = options.minTokens ?? 0
    this.#heldMax = Math.max(0, ...this.#stops.map((stop) => stop.length - 1))
    for (const stop of this.#stops) {
      this.#firstUnits.add(stop.charCodeAt(0))
      for (let i = 0; i + 1 < stop.length; i++) this.#openUnits.add(stop.charCodeAt(i))
    }
  }

  /** The text of one token (or of `tokens` of them). The result is valid until the next call. */
  push(text: string, tokens = 1): StopResult {
    this.#tokens += tokens
    if (this.#held === NOTHING_HELD && !this.#firstUnits.occursIn(text)) {
      return this.#answer(text, NOTHING_HELD, null)
    }
    const all = this.#held + text
    // While stops do not count yet nothing is withheld, so none can begin before that border.
    if (this.#tokens <= this.#minTokens) return this.#answer(all, NOTHING_HELD, null)
    const stop = this.#find(all)
    if (stop !== null) {
      const end = stop.at + (this.#includeInOutput ? stop.text.length : 0)
      return this.#answer(all.slice(0, end), NOTHING_HELD, stop.text)
    }
    const heldLength = this.#openLength(all)
    if (heldLength === 0) return this.#answer(all, NOTHING_HELD, null)
    return this.#answer(all.slice(0, -heldLength), all.slice(-heldLength), null)
  }

  /** The end of the stream: what was withheld is text after all. */
  flush(): string {
    const text = this.#held
    this.#held = NOTHING_HELD
    return text
  }

  #answer(emit: string, held: string, stopped: string | null): StopResult {
    this.#held = held
    this.#result.emit = emit
    this.#result.stopped = stopped
    return this.#result
  }

  #find(text: string): { readonly at: number; readonly text: string } | null {
    let best: { at: number; text: string } | null = null
    for (const stop of this.#stops) {
      const at = text.indexOf(stop)
      if (at < 0) continue
      const end = at + stop.length
      const bestEnd = best === null ? Infinity : best.at + best.text.length
      if (end < bestEnd || (end === bestEnd && best !== null && at < best.at))
        best = { at, text: stop }
    }
    return best
  }

  /** Length of the longest end of the text that a stop string may begin with. */
  #openLength(text: string): number {
    if (!this.#openUnits.has(text.charCodeAt(text.length - 1))) return 0
    for (let length = Math.min(this.#heldMax, text.length); length > 0; length--) {
      for (const stop of this.#stops) {
        if (length < stop.length && text.endsWith(stop.slice(0, length))) return length
      }
    }
    return 0
  }
}
