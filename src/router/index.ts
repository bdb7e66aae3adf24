/** Room `router`: where a request runs, and why. */
export type { BusyThresholds } from './busy-threshold.ts'
export { CONDITIONAL_POLICIES, judgeBypass } from './conditional-policy.ts'
export type {
  ConditionalConfig,
  ConditionalFacts,
  ConditionalOptions,
  ConditionalPolicy,
  ConditionalVerdict,
} from './conditional-policy.ts'
export type {
  CandidateRecord,
  ChoiceReason,
  CostTerms,
  DecisionRecord,
  ExclusionRecord,
} from './decision-record.ts'
export type { FleetObserver } from './fleet-observer.ts'
export { KvRouter } from './kv-router.ts'
export type { KvRouterOptions } from './kv-router.ts'
export { createModelRouter } from './model-router.ts'
export type { ModelRouter, ModelRouterOptions } from './model-router.ts'
export { QUEUE_POLICIES } from './policy-class.ts'
export type { PolicyClass, PolicyClassOptions, QueuePolicy } from './policy-class.ts'
export type { BlockRange, Candidate, Filter, Picker, Scorer, SharedCache } from './policy-part.ts'
export { pickAtTemperature, pickLowest } from './pick.ts'
export { PrefillRouter } from './prefill-router.ts'
export type { PrefillRouterOptions } from './prefill-router.ts'
export { completeRouterConfig, listRouterOptions } from './router-config.ts'
export type {
  CostWeights,
  RouterConfig,
  RouterMode,
  RouterOptions,
  SessionConfig,
  StageDeadlines,
} from './router-config.ts'
export { expectedOf, ROUTER_MODES, ROUTER_OPTION_TABLE } from './router-option-table.ts'
export type { RouterOptionRow } from './router-option-table.ts'
export { parseRouterOptions } from './router-options-json.ts'
export type {
  DisaggregationStatus,
  PoolStatus,
  PrefillState,
  RankStatus,
  RouterStatus,
} from './router-status.ts'
export type { Refusal, Selection, SelectionQuery } from './selection.ts'
export type { TopologyPolicy } from './topology.ts'
export { WorkerRouter } from './worker-router.ts'
export type { WorkerRouterOptions } from './worker-router.ts'
