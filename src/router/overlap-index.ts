/**
 * How many blocks of a prompt each rank of a pool holds already, by tier. A narrow face over the prefix index.
 */
import type { BlockHashes, KvEvent } from '../kv/index.ts'

/** By slot; the arrays belong to the caller and are at least as long as the slots go. */
export interface OverlapScores {
  device: Int32Array
  host: Int32Array
  disk: Int32Array
  /** False: host and disk were not written and hold nothing. */
  hasLowerTiers: boolean
}

export interface OverlapIndex {
  /** Clears and fills `out`. */
  find(hashes: BlockHashes, out: OverlapScores): void
  /** Returns how many events could not be applied. */
  apply(slot: number, events: readonly KvEvent[]): number
  removeSlot(slot: number): void
  /** The request was given to the slot: its prompt will be there. */
  predict(slot: number, hashes: BlockHashes, nowMs: number): void
  /** Forgets predictions that are too old. */
  expire(nowMs: number): void
}
