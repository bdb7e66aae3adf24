/**
 * The interface of the prefix indexes: which holders have which prefix of a prompt. Updated by KV events, queried per
 * request.
 *
 * Owns the contract that every implementation is tested against (`prefix-index-suite.ts`), including what irregular
 * events mean. Holders are small integers, one for each (worker, data-parallel rank), assigned by `HolderTable`.
 *
 * The only key is Baton's sequence hash. It covers the whole prefix, so two prompts with an equal sequence hash are
 * equal up to that block. Engines with hashes of their own also send local hashes; the index then computes Baton's
 * sequence hashes and remembers the engine's hash of each block per holder.
 *
 * Irregular events (docs/decisions/kv-event-semantics.md):
 * - device store after a parent that the holder does not have on the device: rejected, nothing changes;
 * - host or disk store after an unknown parent: accepted, because offloading need not be in order;
 * - store of a block that is its own parent: rejected;
 * - store of blocks that are already held: no effect;
 * - blocks in an order that no chain can have (the same block twice, or after another block than before): accepted as sent.
 *   The result for that holder may then be too low; nothing is thrown, and other holders are not affected;
 * - removal of blocks that are not held: skipped; the other hashes of the event are applied;
 * - removal in the middle of a chain: leaves a hole. The blocks after it count again once the hole is filled;
 * - `cleared`: removes everything of that holder in all tiers.
 */
import type { KvEvent } from '../events/kv-event.ts'
import type { PrefixMatches } from './prefix-matches.ts'

export type ApplyOutcome =
  | 'applied'
  /** Rejected, nothing changed: the holder does not have the parent. */
  | 'parent-not-found'
  /** Rejected, nothing changed: a block is its own parent, or the two lists of hashes have different lengths. */
  | 'invalid'
  /** Rejected, nothing changed: the event alone exceeds the capacity of the index. */
  | 'capacity-exhausted'

export interface PrefixIndexStats {
  /** Number of (holder, block) pairs, all tiers. */
  readonly entries: number
  /** Number of distinct blocks, all tiers. */
  readonly blocks: number
  /** Memory in use by the index, in bytes. */
  readonly bytes: number
  /** Number of events rejected so far. */
  readonly refused: number
  /** Number of blocks evicted so far for lack of memory. */
  readonly givenUp: number
}

export interface PrefixIndex {
  apply(holder: number, event: KvEvent): ApplyOutcome
  /** Removes everything of a holder. The cost is proportional to what the holder has, not to the size of the index. */
  removeHolder(holder: number): void
  /** Finds who holds how much of the prompt. Overwrites `matches`; allocates nothing once it has grown to size. */
  find(sequenceHashes: Uint32Array, matches: PrefixMatches): void
  stats(): PrefixIndexStats
}
