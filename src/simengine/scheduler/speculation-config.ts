/** Options for speculative decoding, and their validated form. */
import { BatonError } from '../../base/index.ts'

export interface SpeculationOptions {
  /** Number of drafts per step and request, 1 to 5. */
  readonly drafts: number
  /** Acceptance probability of each draft, given that the previous ones were accepted. */
  readonly acceptRates: readonly number[]
  /** Seed; each rank has its own random numbers. Default 42. */
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

function refuse(name: string, wanted: string): never {
  throw new BatonError('config.invalid', `speculation.${name} must be ${wanted}`, {
    data: { option: `speculation.${name}` },
  })
}
