/**
 * Room `kv`: block hashes, prefix indexes, and KV events.
 *
 * Owns block hashes (`hash/`), KV events (`events/`), and the prefix indexes (`prefix/`, `runs/`, `loose/`,
 * `index/`): which holder (worker and data-parallel rank) has which leading blocks of a prompt. May use: base. For:
 * the router, and engines that report blocks.
 */
export { ApproximateIndex } from './index/approximate-index.ts'
export type { ApproximateIndexOptions } from './index/approximate-index.ts'
export { chainSequence, hashBlocks, hashPartial, hashSequence } from './hash/block-hash.ts'
export type { BlockHashes, BlockHashOptions, SequenceHashes } from './hash/block-hash.ts'
export { hashesFromBigints, hashesToBigints, hashPairOf, hashToBigint } from './hash/hash-pair.ts'
export type { HashPair } from './hash/hash-pair.ts'
export { EventPrefixIndex } from './index/event-prefix-index.ts'
export type { EventPrefixIndexOptions } from './index/event-prefix-index.ts'
export { HeldPrefixTree } from './index/held-prefix-tree.ts'
export type { HeldPrefixNode } from './index/held-prefix-tree.ts'
export type { KvEvent, KvEventBatch, KvTier } from './events/kv-event.ts'
export type { LoadReport } from './events/load-report.ts'
export { hashMediaId } from './hash/media-hash.ts'
export { NaivePrefixIndex } from './prefix/naive-prefix-index.ts'
export type { ApplyOutcome, PrefixIndex, PrefixIndexStats } from './prefix/prefix-index.ts'
export { PrefixMatches } from './prefix/prefix-matches.ts'
export { xxh3, xxh3Text } from './hash/xxh3.ts'
