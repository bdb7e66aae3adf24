/**
 * Room `request`: the values that describe a request and its life.
 *
 * Owns requests, reply chunks, usage, routing hints, the hand-over from prefill to decode, and the worker's card. May
 * use: base. For: every room above. Only types and small helpers.
 */
export { finishChunk, textChunk, tokenChunk, usageOf } from './chunk.ts'
export type {
  Chunk,
  FinishReason,
  PromptLogprobs,
  TokenLogprob,
  TokenLogprobs,
  Usage,
} from './chunk.ts'
export { modeName, parseDisaggregationMode } from './disaggregation-mode.ts'
export type { DisaggregationMode } from './disaggregation-mode.ts'
export type {
  ForwardedRequest,
  ForwardFlow,
  ForwardHead,
  ForwardSink,
} from './forwarded-request.ts'
export { asShown, engineAnswerOf, isShown, withEngineAnswer } from './engine-answer.ts'
export type { EngineAnswer } from './engine-answer.ts'
export { duringHandOver, isOfHandOver } from './failed-hand-over.ts'
export { canForward, takesSalts, withFields } from './forwarded-request.ts'
export type { GenerateRequest } from './generate-request.ts'
export { isKvOffer } from './kv-transfer.ts'
export type { BootstrapInfo, KvOffer, PrefillResult } from './kv-transfer.ts'
export {
  describeDifferences,
  modelDifferences,
  modelFactsOf,
  modelFactsText,
} from './model-agreement.ts'
export type { ModelDifference, ModelFacts } from './model-agreement.ts'
export { isSilent, neededFeatures } from './needed-features.ts'
export { GOAL_MAX_MS, goalsOfFirst, isGoalMs } from './latency-goals.ts'
export type { LatencyGoals } from './latency-goals.ts'
export { enginePaceFault } from './engine-pace.ts'
export type { EnginePace } from './engine-pace.ts'
export { isLegStart } from './phase-event.ts'
export type {
  KvTransfer,
  LegQueued,
  LegStart,
  Phase,
  PhaseEvent,
  RoutedEvent,
} from './phase-event.ts'
export type { ReplySink, RequestHandle, RequestPlane, RequestService } from './request-service.ts'
export type { RouterOverrides, RoutingHints } from './routing-hints.ts'
export { hasStopTexts } from './sampling.ts'
export type { GuidedDecoding, OutputOptions, Sampling, StopConditions } from './sampling.ts'
export {
  bootstrapAddress,
  hasRemoteTokenizer,
  modelFilesKey,
  servedModelNames,
  upstreamUrl,
} from './worker-card.ts'
export type {
  EngineConfig,
  EngineFeature,
  ModelTextFile,
  ModelTextManifest,
  ModelAgreement,
  ModelTextDigest,
  WorkerCard,
} from './worker-card.ts'
export { BLOCK_TOKENS_MAX, isModelName, NAME_CHARACTERS_MAX } from './model-name.ts'
