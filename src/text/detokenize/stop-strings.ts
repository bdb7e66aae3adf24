/**
 * Finds stop strings in a stream of text. Text that may be the beginning of a stop string is withheld until decided.
 *
 * The result does not depend on how the text is divided into pushes: of several stop strings the one that ends first
 * is found, and of those that end at the same place the longest.
 */
import { UnitSet } from './unit-set.ts'

export interface StopStringsOptions {
  /** Include the stop string itself in the output. */
  readonly includeInOutput?: boolean
  /** A stop string that ends within this many tokens is ignored. */
  readonly minTokens?: number
}

interface StopResult {
  readonly emit: string
  /** The stop string that was found; nothing may be pushed after that. */
  readonly stopped: string | null
}

const NOTHING_HELD = ''

export class StopStrings {
  readonly #stops: readonly string[]
  readonly #includeInOutput: boolean
  readonly #minTokens: number
  readonly #heldMax: number
  /** All UTF-16 units with which withheld text can end, for a fast check: most texts end with none of them. */
  readonly #openUnits = new UnitSet()
  readonly #firstUnits = new UnitSet()
  #held = NOTHING_HELD
  #tokens = 0
  /** Reused for the frequent case, to avoid an allocation per token: valid until the next call. */
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

  /** Adds the text of one token (or of `tokens` tokens). The result is valid until the next call. */
  push(text: string, tokens = 1): StopResult {
    this.#tokens += tokens
    if (this.#held === NOTHING_HELD && !this.#firstUnits.occursIn(text)) {
      return this.#answer(text, NOTHING_HELD, null)
    }
    const all = this.#held + text
    // Within `minTokens` nothing is withheld, so no stop string can begin before that point.
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

  /** End of the stream: returns the withheld text. */
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

  /** Length of the longest suffix of the text with which a stop string may begin. */
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
