/**
 * Which ranks take nothing more: those with as many requests waiting inside as the engine's queue may have, and those over the
 * busy thresholds. The marks stand in the table, so that a decision only reads them.
 */
import { hasBusyThresholds, mergeBusyThresholds } from '../configuration/busy-threshold.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { EngineQueueBound } from './rank-capacity.ts'
import type { RankTable } from './rank-table.ts'

export interface RankJudgeOptions {
  readonly table: RankTable
  readonly busy: BusyThresholds
  /** Null: any number may wait inside a worker. */
  readonly engineQueue: number | null
  /** Ranks may take more than before. */
  readonly onChanged: () => void
}

export class RankJudge {
  readonly #options: RankJudgeOptions
  #busy: BusyThresholds
  #bound: EngineQueueBound | null
  #isAwaited = false

  constructor(options: RankJudgeOptions) {
    const { busy, engineQueue } = options
    this.#options = options
    this.#busy = busy
    this.#bound = engineQueue === null ? null : { requests: engineQueue, advantage: 0 }
  }

  get busy(): BusyThresholds {
    return this.#busy
  }

  judge(slot: number): void {
    const { table } = this.#options
    if (this.#bound !== null) table.judgeCapacity(slot, this.#bound)
    if (!hasBusyThresholds(this.#busy) && table.overloaded[slot] === 0) return
    const tokens = table.activePrefillTokens[slot] as number
    table.judgeOverload(slot, this.#busy, tokens)
  }

  setBusy(update: BusyThresholds): BusyThresholds {
    this.#busy = mergeBusyThresholds(this.#busy, update)
    this.#judgeAll()
    return this.#busy
  }

  /** For a while no more than `max` wait inside a worker (null: as many as are configured), and who `hasWaited` has an advantage. */
  boundEngineQueue(max: number | null, hasWaited: boolean): void {
    const { engineQueue } = this.#options
    const before = this.#bound
    if (engineQueue === null || before === null) return
    const requests = Math.min(engineQueue, max ?? Infinity)
    const advantage = hasWaited || this.#isAwaited ? engineQueue : 0
    if (before.requests === requests && before.advantage === advantage) return
    this.#bound = { requests, advantage }
    this.#judgeAll()
  }

  /** Requests of the leg before have waited for this pool. */
  setAwaited(isAwaited: boolean): void {
    if (this.#isAwaited === isAwaited) return
    this.#isAwaited = isAwaited
    this.boundEngineQueue(this.#bound?.requests ?? null, false)
  }

  #judgeAll(): void {
    const { table, onChanged } = this.#options
    for (const slot of table.live) this.judge(slot)
    onChanged()
  }
}
