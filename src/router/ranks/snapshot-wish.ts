/**
 * When a rank is asked for a snapshot of its cache, because the index has rejected some of its events.
 *
 * At once after the first rejection. If the snapshot does not help (it was rejected, too, or more rejections follow),
 * after a wait that doubles, so that an index with too little memory is not flooded with snapshots.
 */
import type { KvEventBatch } from '../../kv/index.ts'

const WAIT_MS_MIN = 1000
const WAIT_MS_MAX = 60_000
/** A large snapshot takes seconds, and its last blocks may be the ones that are rejected. */
const QUIET_MS_MIN = 10_000

/** State of one rank; changed in place. */
export interface SnapshotWish {
  /** Earliest time of the next request for a snapshot, and the previous wait. */
  snapshotAfterMs: number
  snapshotWaitMs: number
  /** Since when a snapshot is wanted; null: it is not. */
  snapshotWantedMs: number | null
}

export const NO_WISH: Readonly<SnapshotWish> = {
  snapshotAfterMs: 0,
  snapshotWaitMs: 0,
  snapshotWantedMs: null,
}

/** Call after each batch with the number of its events that were rejected. */
export function noteRefusals(
  row: SnapshotWish,
  batch: KvEventBatch,
  refused: number,
  nowMs: number,
): void {
  const isSnapshot = batch.events[0]?.kind === 'cleared'
  if (refused > 0) row.snapshotWantedMs ??= nowMs
  else if (isSnapshot) row.snapshotWantedMs = null
}

/** Whether to request a snapshot now; if true, the next one is not due before its wait is over. */
export function isSnapshotDue(row: SnapshotWish, nowMs: number): boolean {
  const { snapshotWantedMs: wantedMs, snapshotAfterMs, snapshotWaitMs } = row
  if (wantedMs === null || nowMs < snapshotAfterMs) return false
  // Not by the present time: a rank with few events would be asked for useless snapshots without end.
  const quietMs = Math.max(QUIET_MS_MIN, snapshotWaitMs)
  const wasQuiet = snapshotWaitMs === 0 || wantedMs >= snapshotAfterMs + quietMs
  const waitMs = wasQuiet ? WAIT_MS_MIN : Math.min(WAIT_MS_MAX, 2 * snapshotWaitMs)
  row.snapshotWantedMs = null
  row.snapshotWaitMs = waitMs
  row.snapshotAfterMs = nowMs + waitMs
  return true
}
