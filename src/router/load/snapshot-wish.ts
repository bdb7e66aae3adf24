/**
 * When a rank is asked for a snapshot of its cache, because the index has rejected some of its events.
 *
 * At once after the first rejection. If the snapshot does not help (it was rejected, too, or more rejections follow),
 * after a wait that doubles, so that an index with too little memory is not flooded with snapshots.
 */
import type { KvEventBatch } from '../../kv/index.ts'

const WAIT_MS_MIN = 1000
const WAIT_MS_MAX = 60_000

/** State of one rank; changed in place. */
export interface SnapshotWish {
  /** Earliest time of the next request for a snapshot, and the previous wait. */
  snapshotAfterMs: number
  snapshotWaitMs: number
  isSnapshotWanted: boolean
}

export const NO_WISH: Readonly<SnapshotWish> = {
  snapshotAfterMs: 0,
  snapshotWaitMs: 0,
  isSnapshotWanted: false,
}

/** Call after each batch with the number of its events that were rejected. */
export function noteRefusals(row: SnapshotWish, batch: KvEventBatch, refused: number): void {
  const isSnapshot = batch.events[0]?.kind === 'cleared'
  if (refused > 0) row.isSnapshotWanted = true
  else if (isSnapshot) row.isSnapshotWanted = false
}

/** Whether to request a snapshot now; if true, the next one is not due before its wait is over. */
export function isSnapshotDue(row: SnapshotWish, nowMs: number): boolean {
  if (!row.isSnapshotWanted || nowMs < row.snapshotAfterMs) return false
  const isQuiet = nowMs >= row.snapshotAfterMs + row.snapshotWaitMs
  const waitMs = isQuiet ? WAIT_MS_MIN : Math.min(WAIT_MS_MAX, 2 * row.snapshotWaitMs)
  row.isSnapshotWanted = false
  row.snapshotWaitMs = waitMs
  row.snapshotAfterMs = nowMs + waitMs
  return true
}
