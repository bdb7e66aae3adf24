/**
 * How many blocks of a prompt each rank of a pool holds, by tier: what workers announce, and what the router expects
 * to be there because it has just sent it (the prediction keeps a burst of siblings together).
 *
 * Owns: the two indexes side by side (their hashes must never mix) and the life of predictions. A rank's score is the
 * better of the two.
 */
import { NaivePrefixIndex, PrefixMatches } from '../kv/index.ts'
import type { BlockHashes, KvEvent, PrefixIndex } from '../kv/index.ts'

export interface OverlapIndexOptions {
  readonly useKvEvents: boolean
  /** Life of a prediction; 0: none are made. */
  readonly predictedTtlMs: number
  readonly maxBlocks: number
}

interface Prediction {
  readonly slot: number
  readonly hashes: Uint32Array
  readonly untilMs: number
}

export class OverlapIndex {
  readonly matches = new PrefixMatches()
  readonly #options: OverlapIndexOptions
  readonly #events: PrefixIndex = new NaivePrefixIndex()
  readonly #predicted: PrefixIndex = new NaivePrefixIndex()
  readonly #predictedMatches = new PrefixMatches()
  readonly #predictions: Prediction[] = []

  constructor(options: OverlapIndexOptions) {
    this.#options = options
  }

  reserve(slots: number): void {
    this.matches.reserve(slots)
    this.#predictedMatches.reserve(slots)
  }

  /** Fills `matches`. */
  find(hashes: BlockHashes, nowMs: number): void {
    this.#events.find(hashes.sequence, this.matches)
    if (this.#options.predictedTtlMs === 0) return
    this.#expire(nowMs)
    const predicted = this.#predictedMatches
    this.#predicted.find(hashes.sequence, predicted)
    const { matches } = this
    for (let i = 0; i < predicted.count; i++) {
      const slot = predicted.holders[i] as number
      const before = matches.device[slot] as number
      const blocks = predicted.device[slot] as number
      if (blocks <= before) continue
      if (before === 0 && matches.host[slot] === 0 && matches.disk[slot] === 0) matches.add(slot)
      matches.device[slot] = blocks
    }
  }

  /** Returns how many events were not applied as they stand. */
  apply(slot: number, events: readonly KvEvent[]): number {
    let refused = 0
    for (const event of events) if (this.#events.apply(slot, event) !== 'applied') refused++
    return refused
  }

  predict(slot: number, hashes: BlockHashes, nowMs: number): void {
    const { predictedTtlMs } = this.#options
    if (predictedTtlMs === 0 || hashes.sequence.length === 0) return
    this.#predicted.apply(slot, {
      kind: 'stored',
      parent: null,
      hashes: hashes.sequence,
      localHashes: new Uint32Array(0),
      tier: 'device',
    })
    this.#predictions.push({ slot, hashes: hashes.sequence, untilMs: nowMs + predictedTtlMs })
  }

  removeSlot(slot: number): void {
    this.#events.removeHolder(slot)
    this.#predicted.removeHolder(slot)
  }

  #expire(nowMs: number): void {
    for (;;) {
      const oldest = this.#predictions[0]
      if (oldest === undefined || oldest.untilMs > nowMs) return
      this.#predictions.shift()
      const { slot, hashes } = oldest
      this.#predicted.apply(slot, { kind: 'removed', hashes, tier: 'device' })
    }
  }
}
