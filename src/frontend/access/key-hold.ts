/**
 * What one request holds of the limits of its key: a running request, and from when its prompt is known the tokens
 * that it may use. Both are given back at its end.
 */
import type { ApiKey } from './api-key.ts'
import type { KeyLimits } from './key-limits.ts'

export class KeyHold {
  readonly #limits: KeyLimits
  readonly #key: ApiKey
  #leave: ((tokens: number) => void) | null = null
  #giveBack: (() => void) | null = null

  constructor(limits: KeyLimits, key: ApiKey) {
    this.#limits = limits
    this.#key = key
  }

  /** Throws `request.rate_limited`. */
  admit(): void {
    this.#leave = this.#limits.admit(this.#key)
  }

  /** Has an effect once. Throws `request.rate_limited` when the key does not have that many tokens left. */
  reserve(tokensMost: number): void {
    this.#giveBack ??= this.#limits.reserve(this.#key, tokensMost)
  }

  end(tokens: number): void {
    this.#giveBack?.()
    this.#leave?.(tokens)
  }
}
