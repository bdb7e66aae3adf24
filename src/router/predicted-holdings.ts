/**
 * What ranks will hold because a request was just sent there, known before (or without) any KV event.
 *
 * A prediction lives for its time or until there are too many blocks; the oldest go first. Blocks that several
 * predictions share stay until the last of them is over, so a hot prefix never blinks.
 */
import { ActivePrefixTree } from './active-prefix-tree.ts'
import type { ActivePrefixNode } from './active-prefix-tree.ts'

interface Prediction {
  readonly slot: number
  readonly node: ActivePrefixNode
  readonly untilMs: number
}

export class PredictedHoldings {
  readonly #ttlMs: number
  readonly #maxBlocks: number
  readonly #tree = new ActivePrefixTree()
  #predictions: Prediction[] = []
  /** Predictions before this one are over; the list is cut now and then. */
  #first = 0
  #blocks = 0

  constructor(options: { ttlMs: number; maxBlocks: number }) {
    this.#ttlMs = options.ttlMs
    this.#maxBlocks = options.maxBlocks
  }

  get blocks(): number {
    return this.#blocks
  }

  add(slot: number, hashes: Uint32Array, nowMs: number): void {
    if (hashes.length === 0) return
    const { node, added } = this.#tree.insert(hashes, slot)
    this.#blocks += added
    this.#predictions.push({ slot, node, untilMs: nowMs + this.#ttlMs })
    this.#expire(nowMs)
  }

  /** Writes for each slot how many blocks are predicted; other entries are left alone. */
  find(hashes: Uint32Array, out: Int32Array, nowMs: number): void {
    this.#expire(nowMs)
    this.#tree.depths(hashes, out)
  }

  removeSlot(slot: number): void {
    const open = this.#predictions.slice(this.#first)
    this.#predictions = open.filter((prediction) => prediction.slot !== slot)
    this.#first = 0
    for (const prediction of open) if (prediction.slot === slot) this.#end(prediction)
  }

  #expire(nowMs: number): void {
    for (;;) {
      const oldest = this.#predictions[this.#first]
      if (oldest === undefined) break
      if (oldest.untilMs > nowMs && this.#blocks <= this.#maxBlocks) break
      this.#first++
      this.#end(oldest)
    }
    if (this.#first < 1024 || 2 * this.#first < this.#predictions.length) return
    this.#predictions = this.#predictions.slice(this.#first)
    this.#first = 0
  }

  #end({ node, slot }: Prediction): void {
    this.#blocks -= this.#tree.remove(node, slot)
  }
}
