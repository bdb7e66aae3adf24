/** Room `kv`: block hashes, indexes over them, and what is told about blocks. */
export type { KvEvent, KvEventBatch, KvTier } from './kv-event.ts'
export type { LoadReport } from './load-report.ts'
