/**
 * When a rank is asked to tell again what it holds, because the index has refused some of its events.
 *
 * At once after the first refusal; when the snapshot does not help (it was refused, too, or more refusals follow), after a
 * wait that doubles, so that an index with too little memory is not filled with snapshots.
 */
import type { KvEventBatch } from '../../kv/index.ts'

const WAIT_MS_MIN = 1000
const WAIT_MS_MAX = 60_000

/** Of a rank; changed in place. */
export interface SnapshotWish {
  /** When refused events may make it ask for a snapshot again, and how long it waited last. */
  snapshotAfterMs: number
  snapshotWaitMs: number
  isSnapshotWanted: boolean
}

export const NO_WISH: Readonly<SnapshotWish> = {
  snapshotAfterMs: 0,
  snapshotWaitMs: 0,
  isSnapshotWanted: false,
}

/** A batch has been applied, and so many of its events were refused. */
export function noteRefusals(row: SnapshotWish, batch: KvEventBatch, refused: number): void {
  const isSnapshot = batch.events[0]?.kind === 'cleared'
  if (refused > 0) row.isSnapshotWanted = true
  else if (isSnapshot) row.isSnapshotWanted = false
}

/** Whether the rank is to be asked now; then it is not asked again before its time. */
export function isSnapshotDue(row: SnapshotWish, nowMs: number): boolean {
  if (!row.isSnapshotWanted || nowMs < row.snapshotAfterMs) return false
  const isQuiet = nowMs >= row.snapshotAfterMs + row.snapshotWaitMs
  const waitMs = isQuiet ? WAIT_MS_MIN : Math.min(WAIT_MS_MAX, 2 * row.snapshotWaitMs)
  row.isSnapshotWanted = false
  row.snapshotWaitMs = waitMs
  row.snapshotAfterMs = nowMs + waitMs
  return true
}
