/**
 * Speculative decoding: after the token of a step several drafts are guessed, and a leading part of them is accepted.
 *
 * A step takes as long as without drafts, unless `timing` says otherwise.
 */
import { seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { SequenceBlocks } from './sequence-blocks.ts'
import type { SimSequence } from './sim-sequence.ts'
import type { SpeculationConfig } from './speculation-config.ts'
import type { StepBudget } from './step-budget.ts'

export class Drafts {
  readonly #most: number
  readonly #rates: readonly number[]
  readonly #random: Random

  constructor({ drafts, acceptRates, seed }: SpeculationConfig, rank: number) {
    this.#most = drafts
    this.#rates = acceptRates
    this.#random = seededRandom(seed + rank)
  }

  /** Number of drafts, as far as output, budget and cache allow; no sequence is preempted for them. */
  guess<Owner>(
    sequence: SimSequence<Owner>,
    blocks: SequenceBlocks<Owner>,
    budget: StepBudget,
  ): void {
    const endsPrompt = sequence.computedTokens + sequence.stepTokens >= sequence.length
    if (sequence.generatedTokens === 0 || !endsPrompt) return
    const wanted = sequence.outputTokens - sequence.generatedTokens - 1
    const most = Math.min(this.#most, wanted, budget.tokens)
    if (most <= 0) return
    blocks.growTo(sequence, sequence.length + most)
    budget.giveDrafts(sequence, Math.min(most, blocks.capacityOf(sequence) - sequence.length))
  }

  /** Number of accepted drafts. */
  accepted(drafts: number): number {
    let count = 0
    while (count < drafts && this.#random.next() < this.#rates[count]!) count += 1
    return count
  }
}
