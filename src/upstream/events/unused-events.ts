/**
 * Tells once per reason that KV events of a rank come and are not used: routing would lose its exactness silently.
 */
import type { TranslatorCounters } from './kv-event-translator.ts'

/** A model without any cache group of whole prefixes has only events that are left out. */
const LEFT_OUT_BEFORE_TOLD = 64

export class UnusedEvents {
  readonly #dpRank: number
  readonly #blockTokens: number
  readonly #tell: (text: string) => void
  readonly #told = new Set<string>()

  constructor(dpRank: number, blockTokens: number, tell: (text: string) => void) {
    this.#dpRank = dpRank
    this.#blockTokens = blockTokens
    this.#tell = tell
  }

  /** `unreadable`: names of the events that could not be parsed last. */
  check(counters: TranslatorCounters, unreadable: readonly string[]): void {
    const { leftOut, otherBlockSize, otherBlockTokens, stored } = counters
    if (unreadable.length > 0) {
      this.#once('unreadable', `some cannot be read (${[...new Set(unreadable)].join(', ')})`)
    }
    if (otherBlockSize > 0) {
      const blocks = `they name blocks of ${otherBlockTokens} tokens`
      this.#once('block-size', `${blocks}, but the server reports ${this.#blockTokens}`)
    }
    if (stored === 0 && leftOut >= LEFT_OUT_BEFORE_TOLD) {
      this.#once('left-out', 'none of them names the tokens of whole prefixes')
    }
  }

  #once(reason: string, text: string): void {
    if (this.#told.has(reason)) return
    this.#told.add(reason)
    this.#tell(`KV events of rank ${this.#dpRank}: ${text}`)
  }
}
