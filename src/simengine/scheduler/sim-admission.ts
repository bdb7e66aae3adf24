/**
 * Decides whether a waiting sequence may start in this step, and starts it: with its cached prefix, blocks fetched
 * from other tiers, and its first tokens.
 */
import type { OffloadTiers } from '../blocks/offload-tiers.ts'
import { OutputReserve } from './output-reserve.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import type { SequenceBlocks } from './sequence-blocks.ts'
import type { SimSequence } from './sim-sequence.ts'
import type { StepBudget } from './step-budget.ts'

export class SimAdmission<Owner> {
  readonly #config: SchedulerConfig
  readonly #blocks: SequenceBlocks<Owner>
  readonly #tiers: OffloadTiers | null
  readonly #budget: StepBudget
  readonly #reserve: OutputReserve<Owner>

  constructor(
    config: SchedulerConfig,
    blocks: SequenceBlocks<Owner>,
    tiers: OffloadTiers | null,
    budget: StepBudget,
  ) {
    this.#config = config
    this.#blocks = blocks
    this.#tiers = tiers
    this.#budget = budget
    this.#reserve = new OutputReserve(config.reserve, config.blockTokens)
  }

  /** False: nothing has changed. */
  admit(
    sequence: SimSequence<Owner>,
    running: readonly SimSequence<Owner>[],
    nowMs: number,
  ): boolean {
    const { chunkedPrefill, blockTokens } = this.#config
    const hits = this.#blocks.cachedPrefix(sequence)
    const reused = hits + this.#fetchable(sequence, hits)
    const base = sequence.kvArrived ? sequence.length - 1 : reused * blockTokens
    const remaining = sequence.length - base
    if (!chunkedPrefill && remaining > this.#budget.tokens) return false
    const take = this.#budget.share(remaining)
    if (take <= 0 || !this.#budget.fitsPrompt(take)) return false
    const footprint = this.#reserve.footprint(sequence, running.length === 0)
    const available = this.#blocks.availableBeside(sequence, hits) - this.#reserve.reserved(running)
    if (footprint - hits > available) return false
    this.#blocks.reusePrefix(sequence, hits)
    sequence.cachedTokens = Math.min(reused * blockTokens, sequence.promptTokens)
    sequence.computedTokens = base
    if (reused > hits) {
      // It runs, but waits for the fetched blocks before the rest is computed.
      this.#blocks.growTo(sequence, base)
      sequence.notBeforeMs = this.#tiers!.fetch(sequence.hashes, hits, reused, nowMs)
      if (sequence.notBeforeMs > nowMs) return true
    }
    this.#blocks.growTo(sequence, base + take)
    this.#budget.give(sequence, base, take)
    return true
  }

  afterStep(running: readonly SimSequence<Owner>[], hasPreempted: boolean): void {
    this.#reserve.afterStep(running, hasPreempted)
  }

  /** Number of blocks after the cached prefix that are in other tiers. */
  #fetchable(sequence: SimSequence<Owner>, hits: number): number {
    if (this.#tiers === null || sequence.kvArrived) return 0
    return this.#tiers.countFrom(sequence.hashes, hits, this.#blocks.reusable(sequence))
  }
}
