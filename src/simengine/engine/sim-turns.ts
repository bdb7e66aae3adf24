/**
 * How the turns of a simulated engine end: after a random length, or with a tool call. Both are functions of the
 * stream's state, so a migrated turn ends where it would have ended.
 */
import { BatonError } from '../../base/index.ts'
import type { SimTokens } from './sim-tokens.ts'

export interface SimTurnsOptions {
  /** Median of the lengths, in tokens. Default 120. */
  readonly outputTokens?: number
  /**
   * Standard deviation of the logarithm of the lengths; 0: all equal. Two thirds are within a factor of e^spread.
   * Default 0.6.
   */
  readonly spread?: number
  /** Share of the turns that call a tool if they may. Default 0.5. */
  readonly toolCalls?: number
}

const LENGTH_MAX = 1_000_000
/** Separates these random numbers from those of the tokens. */
const OWN_STREAM = 0x51ed270b

export class SimTurns {
  readonly #outputTokens: number
  readonly #spread: number
  readonly #toolCalls: number

  constructor({ outputTokens = 120, spread = 0.6, toolCalls = 0.5 }: SimTurnsOptions) {
    if (!(outputTokens >= 1 && spread >= 0 && toolCalls >= 0 && toolCalls <= 1))
      throw new BatonError(
        'config.invalid',
        'turns: outputTokens must be ≥ 1, spread ≥ 0, toolCalls from 0 to 1',
      )
    this.#outputTokens = outputTokens
    this.#spread = spread
    this.#toolCalls = toolCalls
  }

  get callsTools(): boolean {
    return this.#toolCalls > 0
  }

  /** Length of the whole turn in tokens, including tokens of earlier workers. */
  lengthOf(tokens: SimTokens, stream: number): number {
    const share = (nth: number): number => tokens.shareAt(stream ^ OWN_STREAM, nth)
    // Box-Muller transform: two uniform numbers give one normal number.
    const normal = Math.sqrt(-2 * Math.log(1 - share(0))) * Math.cos(2 * Math.PI * share(1))
    const length = Math.round(this.#outputTokens * Math.exp(this.#spread * normal))
    return Math.max(1, Math.min(LENGTH_MAX, length))
  }

  /** Whether this turn is a tool call. */
  calls(tokens: SimTokens, stream: number): boolean {
    return tokens.shareAt(stream ^ OWN_STREAM, 2) < this.#toolCalls
  }
}
