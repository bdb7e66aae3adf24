/** Room `kv`: block hashes, indexes over them, and what is told about blocks. */
export { chainSequence, countBlocks, hashBlocks, hashPartial } from './block-hash.ts'
export type { BlockHashes, BlockHashOptions } from './block-hash.ts'
export { hashesFromBigints, hashesToBigints, hashPairOf, hashToBigint } from './hash-pair.ts'
export type { HashPair } from './hash-pair.ts'
export type { KvEvent, KvEventBatch, KvTier } from './kv-event.ts'
export type { LoadReport } from './load-report.ts'
export { hashMediaId, mediaPadToken } from './media-hash.ts'
export { xxh3, xxh3Text } from './xxh3.ts'
