/** Options of the conformance kit. */
import type { Clock } from '../../base/index.ts'
import type { DisaggregationMode, GenerateRequest } from '../../request/index.ts'
import type { Engine } from '../engine.ts'

export const DEADLINE_MS = 30_000

/** Creates a new engine, not started, with each call. */
export type EngineFactory = () => Engine | Promise<Engine>

export interface ConformanceOptions {
  /**
   * Clock for the deadlines. Without it there are none: an engine that hangs then hangs the kit, until the test
   * runner's own limit.
   */
  readonly clock?: Clock
  /** For an engine with only one role. Default `agg`. */
  readonly mode?: DisaggregationMode
  /** Tokens of the prompt. Default [1, 2, 3]. */
  readonly promptTokenIds?: readonly number[]
  /** Modifies every request, for an engine that needs more than tokens. */
  readonly prepareRequest?: (request: GenerateRequest) => GenerateRequest
  /** A request that the engine must refuse, with a typed error. */
  readonly failingRequest?: GenerateRequest
  /** A stopped stream has to end within this time, in milliseconds. Default 2000. */
  readonly cancelDeadlineMs?: number
  /** Deadline of everything else, in milliseconds: of a call, and of a whole stream of eight tokens. Default 30000. */
  readonly deadlineMs?: number
  /** Names of checks to skip, each with the reason. */
  readonly skip?: Readonly<Record<string, string>>
}
