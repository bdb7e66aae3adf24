/**
 * Room `router`: decides where a request runs, and records why.
 *
 * Owns configuration, load, decision (eligibility, cost, pick), queue and legs; a leg is one phase of a request on one
 * worker: prefill, decode or both. May use: base, request, kv. For: the frontend and the laboratory.
 */
export type { BusyThresholds } from './configuration/busy-threshold.ts'
export { CONDITIONAL_POLICIES, judgeBypass } from './configuration/conditional-policy.ts'
export type {
  ConditionalConfig,
  ConditionalFacts,
  ConditionalOptions,
  ConditionalPolicy,
  ConditionalVerdict,
} from './configuration/conditional-policy.ts'
export type {
  CandidateRecord,
  ChoiceReason,
  DecisionRecord,
  ExclusionRecord,
} from './decide/decision-record.ts'
export type { FleetObserver } from './load/fleet-observer.ts'
export { parsePeerNews } from './load/peer-news.ts'
export type { PeerNews } from './load/peer-news.ts'
export { KvRouter } from './decide/kv-router.ts'
export type { KvRouterOptions } from './decide/kv-router.ts'
export { createModelRouter } from './model-router.ts'
export type { ModelRouter, ModelRouterOptions } from './model-router.ts'
export { QUEUE_POLICIES } from './configuration/policy-class.ts'
export type { PolicyClass, PolicyClassOptions, QueuePolicy } from './configuration/policy-class.ts'
export type { Candidate } from './cost/candidate.ts'
export { COST_MODELS, TERMS_OF } from './cost/cost-function.ts'
export type { CostModel, TermValues, WeighedTerm } from './cost/cost-function.ts'
export type { BuiltInTerm, CostTerm, TermRole } from './cost/cost-term.ts'
export type { BlockRange, Filter, Picker, Scorer, SharedCache } from './cost/policy-part.ts'
export type { CostWeights } from './cost/weights.ts'
export { pickAtTemperature, pickLowest } from './decide/pick.ts'
export { DEFAULT_ROLE_CONTROL, RoleController } from './roles/role-controller.ts'
export type { Role, RoleChange, RoleControllerOptions, RoleView } from './roles/role-controller.ts'
export { changeByAgreement } from './roles/role-agreement.ts'
export type { RoleOutcome, RoleRequests, RoleVoters } from './roles/role-agreement.ts'
export { RoleHold } from './roles/role-hold.ts'
export type { HoldAnswer } from './roles/role-hold.ts'
export { roleLoadOf } from './roles/role-load.ts'
export type { RoleLoad } from './roles/role-load.ts'
export { PrefillRouter } from './legs/prefill-router.ts'
export type { PrefillRouterOptions } from './legs/prefill-router.ts'
export { completeRouterConfig, listRouterOptions } from './configuration/router-config.ts'
export type {
  RouterConfig,
  RouterMode,
  RouterOptions,
  SessionConfig,
  StageDeadlines,
} from './configuration/router-config.ts'
export {
  expectedOf,
  ROUTER_MODES,
  ROUTER_OPTION_TABLE,
} from './configuration/router-option-table.ts'
export type { RouterOptionRow } from './configuration/router-option-table.ts'
export { parseRouterOptions } from './configuration/router-options-json.ts'
export { hasNoPair } from './ranks/router-status.ts'
export type {
  DisaggregationStatus,
  PoolStatus,
  PrefillState,
  RankStatus,
  RouterStatus,
} from './ranks/router-status.ts'
export type { Refusal, Selection, SelectionQuery } from './decide/selection.ts'
export type { TopologyPolicy } from './configuration/topology.ts'
export { WorkerRouter } from './legs/worker-router.ts'
export type { WorkerRouterOptions } from './legs/worker-router.ts'
