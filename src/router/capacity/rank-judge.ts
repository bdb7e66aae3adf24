/**
 * Marks the ranks that take no more requests: those with a full engine queue and those above the busy thresholds. The
 * marks are columns of the rank table, so that a decision only reads them.
 */
import { hasBusyThresholds, mergeBusyThresholds } from '../configuration/busy-threshold.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { EngineQueueBound } from '../load/rank-capacity.ts'
import type { RankTable } from '../load/rank-table.ts'

export interface RankJudgeOptions {
  readonly table: RankTable
  readonly busy: BusyThresholds
  /** Null: no limit for requests queued inside a worker. */
  readonly engineQueue: number | null
  /** Called when ranks may take more than before. */
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

  /**
   * Temporarily limits the requests queued inside each worker to `max` (null: as configured). `hasWaited`: this
   * router has queued requests and may exceed the limit on ranks where others have most places. With a lower limit the
   * excess is larger, because others may not have lowered theirs: a quarter of the places can be kept against them.
   */
  boundEngineQueue(max: number | null, hasWaited: boolean): void {
    const { engineQueue } = this.#options
    const before = this.#bound
    if (engineQueue === null || before === null) return
    const requests = Math.min(engineQueue, max ?? Infinity)
    const advantage = hasWaited || this.#isAwaited ? 3 * engineQueue - 2 * requests : 0
    if (before.requests === requests && before.advantage === advantage) return
    this.#bound = { requests, advantage }
    this.#judgeAll()
  }

  /** Requests of the previous leg are queued for this pool. */
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
