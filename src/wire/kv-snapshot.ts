/**
 * All blocks that a worker holds, given out in parts between which its engine works on: a large cache in one piece
 * would stop every stream of the process for seconds.
 *
 * The parts of a rank come one after the other, the first one begins with `cleared`. Events that are published
 * meanwhile pass through `follow`. After the last part, a subscriber that has applied both in the order of the calls
 * has exactly the worker's blocks.
 */
import type { KvEvent, KvEventBatch } from '../kv/index.ts'

export interface KvSnapshot {
  /**
   * The next part, numbered like the last published batch of its rank; null: complete. A part without events means
   * that there is nothing to send yet.
   */
  next(): KvEventBatch | null
  /** What to send now of a batch that was just published; a later part contains the rest. */
  follow(batch: KvEventBatch): readonly KvEvent[]
  /** Ends it early. Idempotent, and not necessary after the last part. */
  close(): void
}

/** The whole snapshot at once, one batch per rank, for subscribers in the same process and for simulated ones. */
export function wholeKvSnapshot(snapshot: KvSnapshot | undefined): readonly KvEventBatch[] {
  const ranks = new Map<number, { sequence: number; dpRank: number; events: KvEvent[] }>()
  for (let part = snapshot?.next(); part != null; part = snapshot?.next()) {
    const { sequence, dpRank, events } = part
    const known = ranks.get(dpRank)
    if (known === undefined) ranks.set(dpRank, { sequence, dpRank, events: [...events] })
    else for (const event of events) known.events.push(event)
  }
  return [...ranks.values()]
}
