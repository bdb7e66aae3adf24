/**
 * Sees to it that KV events reach the router without gaps: a batch whose number does not follow (the first one has
 * number 1) is dropped and a snapshot asked for; until that has come nothing of that rank is delivered.
 */
import type { KvEventBatch } from '../kv/index.ts'

export interface KvEventGapsOptions {
  readonly deliver: (batch: KvEventBatch) => void
  readonly askSnapshot: () => void
  /** Whether what was delivered could not all be taken, so that a snapshot is needed although nothing was missed. */
  readonly wantsSnapshot?: (dpRank: number) => boolean
}

export class KvEventGaps {
  readonly #options: KvEventGapsOptions
  /** Rank → number of the batch delivered last. */
  readonly #last = new Map<number, number>()
  #isSnapshotDue = false

  constructor(options: KvEventGapsOptions) {
    this.#options = options
  }

  /** A new connection: whatever comes first is the start. */
  reset(): void {
    this.#last.clear()
    this.#isSnapshotDue = false
  }

  take(batch: KvEventBatch): void {
    const last = this.#last.get(batch.dpRank) ?? 0
    const isSnapshot = batch.events[0]?.kind === 'cleared'
    if (!isSnapshot && batch.sequence <= last) return
    if (!isSnapshot && batch.sequence !== last + 1) {
      if (!this.#isSnapshotDue) this.#options.askSnapshot()
      this.#isSnapshotDue = true
      return
    }
    if (isSnapshot) this.#isSnapshotDue = false
    this.#last.set(batch.dpRank, batch.sequence)
    this.#options.deliver(batch)
    if (this.#isSnapshotDue) return
    if (this.#options.wantsSnapshot?.(batch.dpRank) === true) this.#options.askSnapshot()
  }
}
