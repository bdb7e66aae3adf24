/**
 * Speculative decoding: behind the token of a step some are guessed, and a run of them from the first on is accepted.
 *
 * A step takes as long as without; `timing` says otherwise if it should. Owns: how many are guessed and accepted. Does
 * not own: their blocks and their place in the step's budget (`SimScheduler`).
 */
import { BatonError, seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'

export interface SpeculationOptions {
  /** Guessed per step and request, 1 to 5. */
  readonly drafts: number
  /** Of each draft, given that those before it were accepted; one per draft. */
  readonly acceptRates: readonly number[]
  /** Each rank has its own numbers. Default 42. */
  readonly seed?: number
}

export type SpeculationConfig = Required<SpeculationOptions>

const DRAFTS_MAX = 5

export function createSpeculationConfig(options: SpeculationOptions): SpeculationConfig {
  const { drafts, acceptRates, seed = 42 } = options
  if (!Number.isSafeInteger(drafts) || drafts < 1 || drafts > DRAFTS_MAX)
    refuse('drafts', `a whole number from 1 to ${DRAFTS_MAX}`)
  if (acceptRates.length !== drafts || !acceptRates.every((rate) => rate >= 0 && rate <= 1))
    refuse('acceptRates', `${drafts} numbers from 0 to 1, one per draft`)
  if (!Number.isSafeInteger(seed) || seed < 0) refuse('seed', 'a whole number ≥ 0')
  return { drafts, acceptRates, seed }
}

export class Drafts {
  readonly #rates: readonly number[]
  readonly #random: Random

  constructor({ acceptRates, seed }: SpeculationConfig, rank: number) {
    this.#rates = acceptRates
    this.#random = seededRandom(seed + rank)
  }

  /** How many of so many drafts turn out right. */
  accepted(drafts: number): number {
    let count = 0
    while (count < drafts && this.#random.next() < this.#rates[count]!) count += 1
    return count
  }
}

function refuse(name: string, wanted: string): never {
  throw new BatonError('config.invalid', `speculation.${name} must be ${wanted}`, {
    data: { option: `speculation.${name}` },
  })
}
