/**
 * Room `engine`: what the author of an engine needs.
 *
 * Owns the `Engine` contract, the stream validator, the KV block store, and the conformance kit (`testing/`). May
 * use: base, request, kv. For: authors of engines, and the worker that runs them.
 */
export { BatonError, sleep } from '../base/index.ts'
export type { Clock, ErrorCode, Timer, WorkerId } from '../base/index.ts'
export type { KvEvent, KvTier, LoadReport } from '../kv/index.ts'
export { finishChunk, hasStopTexts, textChunk, tokenChunk, usageOf } from '../request/index.ts'
export type {
  Chunk,
  DisaggregationMode,
  EngineConfig,
  EngineFeature,
  FinishReason,
  GenerateRequest,
  KvOffer,
  PrefillResult,
  TokenLogprob,
  TokenLogprobs,
  Usage,
} from '../request/index.ts'
export { chunkFault } from './check-chunk.ts'
export { engineConfigFault } from './config-fault.ts'
export type { Engine, EngineObserver } from './engine.ts'
export type { EngineChunk } from './engine-chunk.ts'
export { isEngineMetric } from './engine-metric.ts'
export type { EngineMetric } from './engine-metric.ts'
export { metricsOfLoad } from './load-metrics.ts'
export { RequestContext } from './generate-context.ts'
export type { GenerateContext } from './generate-context.ts'
export {
  checkedBlocks,
  kvBlocksError,
  kvPinFault,
  ownIndexes,
  ownPinnedBlocks,
} from './kv-block-faults.ts'
export type { KvBlockSource, KvPin } from './kv-block-source.ts'
export {
  brokenStreamRule,
  STREAM_RULES,
  StreamValidator,
  validateStream,
} from './validate-stream.ts'
export type { StreamRule, ValidateOptions } from './validate-stream.ts'
export { ownKvEvents } from './reports/own-kv-events.ts'
export { kvEventFault, loadReportFault, ownLoadReport } from './reports/own-report.ts'
export { rankFault } from './reports/report-faults.ts'
export type { UserEngineOptions } from './user-engine.ts'
export { embeddingOf } from './embedding-of.ts'
export { drawSeed } from './draw-seed.ts'
export { KvBlockStore } from './kv-block-store.ts'
export type { KvBlockStoreOptions } from './kv-block-store.ts'
export { promptBlocks, tokensOfBlock } from './prompt-blocks.ts'
export type { PromptBlocks } from './prompt-blocks.ts'
