/** Applies KV events to a pool's index; counts gaps and rejected events, and notes when a snapshot is needed. */
import type { Clock, WorkerId } from '../../base/index.ts'
import type { KvEventBatch } from '../../kv/index.ts'
import type { OverlapIndex } from './overlap-index.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { isSnapshotDue, noteRefusals } from '../ranks/snapshot-wish.ts'

export class EventIntake {
  readonly #table: RankTable
  readonly #index: OverlapIndex
  readonly #clock: Clock
  gaps = 0
  refused = 0
  snapshotsAsked = 0

  constructor(table: RankTable, index: OverlapIndex, clock: Clock) {
    this.#table = table
    this.#index = index
    this.#clock = clock
  }

  take(workerId: WorkerId, batch: KvEventBatch): void {
    const slot = this.#table.slotOf(workerId, batch.dpRank)
    if (slot === -1) return
    const row = this.#table.row(slot)
    if (row.lastSequence !== null && batch.sequence > row.lastSequence + 1) this.gaps++
    row.lastSequence = batch.sequence
    if (row.kvEventsSeen === 0 && batch.events.length > 0) this.#index.forgetBeliefs(slot)
    row.kvEventsSeen += batch.events.length
    const refused = this.#index.apply(slot, batch.events)
    this.refused += refused
    noteRefusals(row, batch, refused, this.#clock.nowMs())
  }

  wantsSnapshot(workerId: WorkerId, dpRank: number): boolean {
    const slot = this.#table.slotOf(workerId, dpRank)
    if (slot === -1 || !isSnapshotDue(this.#table.row(slot), this.#clock.nowMs())) return false
    this.snapshotsAsked++
    return true
  }
}
