/**
 * A rank's snapshot from the worker's own records, which already contain the events that `follow` is called with.
 *
 * Removals are always sent at once; the removal of a block that was not sent yet has no effect. A stored block is sent
 * at once, too, unless its parent is still unsent, because an index rejects blocks without their parent. It is then a
 * row of the table that was not sent, like any other. (If the engine has removed it again in the same step, it is not
 * sent at all.)
 */
import type { KvEvent, KvTier } from '../../kv/index.ts'
import type { HeldBlocks } from './held-blocks.ts'
import type { RankSnapshot } from './rank-snapshot.ts'
import { UnsentBlocks } from './unsent-blocks.ts'

export class RecordedSnapshot implements RankSnapshot {
  readonly isStale = false
  /** In this order, because blocks of a lower tier may have their parent in a higher one. */
  readonly #tiers: ReadonlyMap<KvTier, UnsentBlocks>

  constructor(tiers: ReadonlyMap<KvTier, HeldBlocks>) {
    this.#tiers = new Map([...tiers].map(([tier, held]) => [tier, new UnsentBlocks(held, tier)]))
  }

  get isDone(): boolean {
    for (const unsent of this.#tiers.values()) if (unsent.size > 0) return false
    return true
  }

  take(sizeMax: number): KvEvent[] {
    const events: KvEvent[] = []
    let size = 0
    for (const unsent of this.#tiers.values()) {
      size += unsent.take(sizeMax - size, events)
      if (unsent.size > 0) break
    }
    return events
  }

  follow(events: readonly KvEvent[]): readonly KvEvent[] {
    return events.filter((event) => event.kind !== 'stored' || this.#sendsNow(event))
  }

  close(): void {
    for (const unsent of this.#tiers.values()) unsent.close()
  }

  #sendsNow({ parent, hashes, tier }: Extract<KvEvent, { kind: 'stored' }>): boolean {
    if (parent !== null) {
      for (const unsent of this.#tiers.values()) if (unsent.has(parent[0], parent[1])) return false
    }
    return this.#tiers.get(tier)?.noteSent(hashes) === true
  }
}
