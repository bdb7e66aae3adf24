/**
 * The snapshot of a worker's blocks: its ranks one after the other, each in parts of bounded size.
 *
 * A rank has not begun, or is being sent, or is complete. Events of a rank that has not begun are dropped, because its
 * parts will contain their result; those of a complete or new rank are sent unchanged.
 */
import type { KvEvent, KvEventBatch } from '../../kv/index.ts'
import type { KvSnapshot } from '../../wire/index.ts'
import type { RankSnapshot } from './rank-snapshot.ts'

export interface SnapshotSource {
  readonly dpRank: number
  /** Number of the last published batch. */
  readonly sequence: () => number
  readonly begin: () => RankSnapshot
}

export class PartedSnapshot implements KvSnapshot {
  readonly #partMax: number
  readonly #notBegun: SnapshotSource[]
  #source: SnapshotSource | undefined
  #rank: RankSnapshot | null = null

  constructor(sources: readonly SnapshotSource[], partMax: number) {
    this.#notBegun = [...sources]
    this.#partMax = partMax
  }

  next(): KvEventBatch | null {
    const head: KvEvent[] = []
    if (this.#rank === null) {
      this.#source = this.#notBegun.shift()
      if (this.#source === undefined) return null
      this.#rank = this.#source.begin()
      head.push({ kind: 'cleared' })
    }
    const { dpRank, sequence } = this.#source as SnapshotSource
    const events = [...head, ...this.#rank.take(this.#partMax)]
    if (this.#rank.isDone) this.#endRank()
    return { sequence: sequence(), dpRank, events }
  }

  follow({ dpRank, events }: KvEventBatch): readonly KvEvent[] {
    if (this.#notBegun.some((source) => source.dpRank === dpRank)) return []
    if (this.#rank === null || this.#source?.dpRank !== dpRank) return events
    const now = this.#rank.follow(events)
    if (!this.#rank.isStale) return now
    this.#endRank()
    this.#notBegun.push(this.#source)
    return []
  }

  close(): void {
    this.#notBegun.length = 0
    this.#endRank()
  }

  #endRank(): void {
    this.#rank?.close()
    this.#rank = null
  }
}
