/** Room `engine`: the contract, what checks it, and the simulated engine; all that an author of an engine needs. */
export { BatonError } from '../base/index.ts'
export type { Clock, ErrorCode, WorkerId } from '../base/index.ts'
export { finishChunk, hasStopTexts, tokenChunk, usageOf } from '../request/index.ts'
export type { Chunk, EngineConfig, FinishReason, GenerateRequest } from '../request/index.ts'
export type { Engine, EngineObserver } from './engine.ts'
export { isEngineMetric } from './engine-metric.ts'
export type { EngineMetric } from './engine-metric.ts'
export { metricsOfLoad } from './load-metrics.ts'
export { RequestContext } from './generate-context.ts'
export type { GenerateContext } from './generate-context.ts'
export type { KvBlockSource, KvPin } from './kv-block-source.ts'
export type { BlockPool } from './sim/block-pool.ts'
export { mockEngineOptions } from './sim/mock-engine-args.ts'
export type { MockArgFiles, MockEngineOptions } from './sim/mock-engine-args.ts'
export type { OffloadOptions } from './sim/offload-config.ts'
export type { SpeculationOptions } from './sim/speculation-config.ts'
export { PLANNER_PROFILE_ARRAYS } from './sim/planner-profile.ts'
export { createSchedulerConfig } from './sim/scheduler-config.ts'
export type { SchedulerConfig, SchedulerOptions, SglangOptions } from './sim/scheduler-config.ts'
export type { BlockHasher } from './sim/sequence-blocks.ts'
export type { SimBootstrap } from './sim/sim-bootstrap.ts'
export type {
  KvBroadcastAddresses,
  KvBroadcastPorts,
  SimKvBroadcast,
} from './sim/sim-kv-broadcast.ts'
export { SimEngine } from './sim/sim-engine.ts'
export type { SimEngineOptions, SimFault } from './sim/sim-options.ts'
export type { SimReasoning } from './sim/sim-output.ts'
export { SimScheduler } from './sim/sim-scheduler.ts'
export type { SimStep } from './sim/sim-scheduler.ts'
export type { SimSequence, SimSequenceState, SimSubmit } from './sim/sim-sequence.ts'
export { createSimTiming } from './sim/sim-timing.ts'
export type {
  Curve,
  DecodeBatch,
  Grid,
  Polynomial,
  PrefillBatch,
  SimTiming,
  SimTimingOptions,
} from './sim/sim-timing.ts'
export type { TokenChoice } from './sim/sim-tokens.ts'
export {
  brokenStreamRule,
  STREAM_RULES,
  StreamValidator,
  validateStream,
} from './validate-stream.ts'
export type { StreamRule, ValidateOptions } from './validate-stream.ts'
export { drawSeed } from './draw-seed.ts'
export { KvBlockStore } from './kv-block-store.ts'
export type { KvBlockStoreOptions } from './kv-block-store.ts'
export { promptBlocks, tokensOfBlock } from './prompt-blocks.ts'
export type { PromptBlocks } from './prompt-blocks.ts'
