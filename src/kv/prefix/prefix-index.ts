/**
 * The seam of the prefix indexes: who holds which prefix of a prompt, kept by events, asked per request.
 *
 * Owns: the contract that every implementation is tested against (`prefix-index-suite.ts`), and what an irregular
 * event means. Holders are small dense integers, one for each (worker, data-parallel rank); `HolderTable` gives them.
 *
 * The one key is Baton's own sequence hash. Because it covers the whole prefix, two prompts that agree in one
 * sequence hash agree in all before it. Engines with hashes of their own send local hashes as well; the index then
 * works out the chain and remembers the engine's name for each block of that holder.
 *
 * Irregular events (docs/decisions/kv-event-semantics.md):
 * - device store after a parent that the holder does not hold on the device: refused, nothing changes;
 * - host or disk store after an unknown parent: taken, because offloading need not go in order;
 * - store of a block that is its own parent: refused;
 * - store of what is held already: a no-op;
 * - blocks in an order that no chain has (one twice in an event, or after another one than before): taken as they are named.
 *   What is said of that holder may be less than it has; nothing is thrown, and holders of other blocks do not notice;
 * - removal of what is not held: skipped, the other hashes of the event still count;
 * - removal in the middle of a chain: a hole. What lies behind counts again once the hole is filled;
 * - `cleared`: everything of that holder, on every tier.
 */
import type { KvEvent } from '../events/kv-event.ts'
import type { PrefixMatches } from './prefix-matches.ts'

export type ApplyOutcome =
  | 'applied'
  /** Nothing changed: the parent is not held by this holder. */
  | 'parent-not-found'
  /** Some hashes of a removal were not held; the others were removed. */
  | 'block-not-found'
  /** Nothing changed: a block is its own parent, or the two lists of hashes do not fit each other. */
  | 'invalid'
  /** Nothing changed: the event alone is more than the index can hold. */
  | 'capacity-exhausted'

export interface PrefixIndexStats {
  /** Pairs of (holder, block), all tiers. */
  readonly entries: number
  /** Different blocks that are kept, all tiers. */
  readonly blocks: number
  /** Memory of the structure, as far as it is in use. */
  readonly bytes: number
  /** Events refused so far. */
  readonly refused: number
  /** Blocks given up so far because memory was at its end. */
  readonly givenUp: number
}

export interface PrefixIndex {
  apply(holder: number, event: KvEvent): ApplyOutcome
  /** Forgets everything that the holder has. Costs in proportion to that, not to the index. */
  removeHolder(holder: number): void
  /** Who holds how much of the prompt. `matches` is overwritten; nothing is allocated once it has grown. */
  find(sequenceHashes: Uint32Array, matches: PrefixMatches): void
  stats(): PrefixIndexStats
}
