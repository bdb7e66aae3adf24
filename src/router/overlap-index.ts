/**
 * How many blocks of a prompt each rank of a pool holds, by tier: what workers announce, and what the router expects
 * to be there because it has just sent it (that keeps a burst of siblings together, and is all there is without events).
 *
 * The two are kept apart, and a rank's score is the better one.
 */
import { EventPrefixIndex, PrefixMatches } from '../kv/index.ts'
import type { BlockHashes, KvEvent, PrefixIndex } from '../kv/index.ts'
import { PredictedHoldings } from './predicted-holdings.ts'

interface OverlapIndexOptions {
  /** Life of a prediction; 0: none are made. */
  readonly predictedTtlMs: number
  readonly maxBlocks: number
}

export class OverlapIndex {
  readonly matches = new PrefixMatches()
  readonly #maxBlocks: number
  /** Made with the first event: a pool of decode workers never has one. */
  #events: PrefixIndex | null = null
  readonly #predicted: PredictedHoldings | null
  #depths = new Int32Array(0)

  constructor({ predictedTtlMs, maxBlocks }: OverlapIndexOptions) {
    this.#maxBlocks = maxBlocks
    this.#predicted =
      predictedTtlMs > 0 ? new PredictedHoldings({ ttlMs: predictedTtlMs, maxBlocks }) : null
  }

  reserve(slots: number): void {
    this.matches.reserve(slots)
    if (this.#predicted !== null) this.#depths = new Int32Array(slots)
  }

  /** Fills `matches`. */
  find(hashes: BlockHashes, nowMs: number): void {
    const { matches } = this
    if (this.#events === null) matches.clear()
    else this.#events.find(hashes.sequence, matches)
    if (this.#predicted === null) return
    const depths = this.#depths.fill(0)
    this.#predicted.find(hashes.sequence, depths, nowMs)
    for (let slot = 0; slot < depths.length; slot++) {
      const before = matches.device[slot] as number
      const blocks = depths[slot] as number
      if (blocks <= before) continue
      if (before === 0 && matches.host[slot] === 0 && matches.disk[slot] === 0) matches.add(slot)
      matches.device[slot] = blocks
    }
  }

  /** Returns how many events were refused. */
  apply(slot: number, events: readonly KvEvent[]): number {
    if (events.length === 0) return 0
    const index = (this.#events ??= new EventPrefixIndex({ blocksMax: this.#maxBlocks }))
    let refused = 0
    for (const event of events) {
      const outcome = index.apply(slot, event)
      if (outcome !== 'applied' && outcome !== 'block-not-found') refused++
    }
    return refused
  }

  predict(slot: number, hashes: BlockHashes, nowMs: number): void {
    this.#predicted?.add(slot, hashes.sequence, nowMs)
  }

  removeSlot(slot: number): void {
    this.#events?.removeHolder(slot)
    this.#predicted?.removeSlot(slot)
  }
}
