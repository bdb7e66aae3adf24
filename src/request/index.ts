/** Room `request`: the life of a request as values. */
export { finishChunk, tokenChunk, usageOf } from './chunk.ts'
export type { Chunk, FinishReason, TokenLogprob, TokenLogprobs, Usage } from './chunk.ts'
export {
  disaggregationModeToJson,
  isDecode,
  isPrefill,
  parseDisaggregationMode,
} from './disaggregation-mode.ts'
export type { DisaggregationMode } from './disaggregation-mode.ts'
export type { GenerateRequest } from './generate-request.ts'
export type { BootstrapInfo, KvOffer, PrefillResult } from './kv-transfer.ts'
export type {
  Phase,
  ReplySink,
  RequestHandle,
  RequestPlane,
  RequestService,
  RoutedEvent,
} from './request-service.ts'
export type { RouterOverrides, RoutingHints } from './routing-hints.ts'
export { hasStopTexts } from './sampling.ts'
export type { GuidedDecoding, OutputOptions, Sampling, StopConditions } from './sampling.ts'
export { servedModelNames } from './worker-card.ts'
export type { EngineConfig, EngineFeature, WorkerCard } from './worker-card.ts'
