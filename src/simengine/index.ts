/**
 * Room `simengine`: an engine without a model.
 *
 * Owns the simulated engine, its scheduler, block pool and timing model, and the arguments it takes (NVIDIA's mock
 * engine's). Does not own sockets or files: ZeroMQ, npz files and the bootstrap port are in `host/simengine`. May
 * use: base, request, kv, engine. For: load tests without a GPU, the laboratory, tests.
 */
export { mockEngineOptions } from './arguments/mock-engine-args.ts'
export { flatMockArgs } from './arguments/nested-args.ts'
export type { MockArgFiles, MockEngineOptions } from './arguments/mock-engine-args.ts'
export { PLANNER_PROFILE_ARRAYS } from './arguments/planner-profile.ts'
export type { BlockPool } from './blocks/block-pool.ts'
export type { OffloadOptions } from './blocks/offload-config.ts'
export type { SimBootstrap } from './engine/sim-bootstrap.ts'
export { SimEngine } from './engine/sim-engine.ts'
export type {
  KvBroadcastAddresses,
  KvBroadcastPorts,
  SimKvBroadcast,
} from './engine/sim-kv-broadcast.ts'
export type { SimEngineOptions, SimFault } from './engine/sim-options.ts'
export type { SimReasoning } from './engine/sim-output.ts'
export type { SimRunData } from './engine/sim-stream.ts'
export { SimTokens } from './engine/sim-tokens.ts'
export type { TokenChoice } from './engine/sim-tokens.ts'
export { createSchedulerConfig } from './scheduler/scheduler-config.ts'
export type {
  SchedulerConfig,
  SchedulerOptions,
  SglangOptions,
} from './scheduler/scheduler-config.ts'
export type { BlockHasher } from './scheduler/sequence-blocks.ts'
export { SimScheduler } from './scheduler/sim-scheduler.ts'
export type { SimStep } from './scheduler/sim-scheduler.ts'
export type { SimSequence, SimSequenceState, SimSubmit } from './scheduler/sim-sequence.ts'
export { createSimTiming } from './scheduler/sim-timing.ts'
export type {
  Curve,
  DecodeBatch,
  Grid,
  Polynomial,
  PrefillBatch,
  SimTiming,
  SimTimingOptions,
} from './scheduler/sim-timing.ts'
export type { SpeculationOptions } from './scheduler/speculation-config.ts'
export type { StepAhead, StepRun } from './scheduler/step-ahead.ts'
