/**
 * Delivers KV events to the router without gaps: a batch with an unexpected number (the first has number 1) is
 * dropped and a snapshot requested; until it arrives no events of that rank are delivered.
 */
import type { KvEventBatch } from '../kv/index.ts'

export interface KvEventGapsOptions {
  readonly deliver: (batch: KvEventBatch) => void
  readonly askSnapshot: () => void
  /** Whether some delivered events were rejected, so that a snapshot is needed although none was missed. */
  readonly wantsSnapshot?: (dpRank: number) => boolean
}

export class KvEventGaps {
  readonly #options: KvEventGapsOptions
  /** Rank → number of the last delivered batch. */
  readonly #last = new Map<number, number>()
  #isSnapshotDue = false

  constructor(options: KvEventGapsOptions) {
    this.#options = options
  }

  /** A new connection: whatever arrives first is the start. */
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
