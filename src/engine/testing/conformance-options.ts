/**
 * What a user tells the kit about an engine.
 */
import type { Clock } from '../../base/index.ts'
import type { DisaggregationMode, GenerateRequest } from '../../request/index.ts'
import type { Engine } from '../engine.ts'

/** A new engine that was not started, each time. */
export type EngineFactory = () => Engine | Promise<Engine>

export interface ConformanceOptions {
  /**
   * Time for the deadlines. Without it there are none: an engine that hangs then hangs the kit, and the test runner's
   * own limit has to catch it.
   */
  readonly clock?: Clock
  /** For an engine that plays one role only. Default `agg`. */
  readonly mode?: DisaggregationMode
  /** Tokens of the prompt. Default [1, 2, 3]. */
  readonly promptTokenIds?: readonly number[]
  /** Last change of every request, for what an engine needs beside the tokens. */
  readonly prepareRequest?: (request: GenerateRequest) => GenerateRequest
  /** A request that the engine must refuse; the refusal has to be typed. */
  readonly failingRequest?: GenerateRequest
  /** A stopped stream has to end within this. Default 2000. */
  readonly cancelDeadlineMs?: number
  /** Everything else. Default 30000. */
  readonly deadlineMs?: number
  /** Names of checks to leave out, each with the reason. */
  readonly skip?: Readonly<Record<string, string>>
}
