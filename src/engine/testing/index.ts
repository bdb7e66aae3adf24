/** Room `engine/testing`: the conformance kit for engines, published as `baton-llm/engine/testing`. */
export type { ConformanceOptions, EngineFactory } from './conformance-options.ts'
export { describeFailures } from './conformance-report.ts'
export type {
  ConformanceFailure,
  ConformanceReport,
  ConformanceSkip,
} from './conformance-report.ts'
export { CONFORMANCE_RULES } from './conformance-rules.ts'
export type { ConformanceRule } from './conformance-rules.ts'
export { runConformance } from './run-conformance.ts'
