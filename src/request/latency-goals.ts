/**
 * The latency goals (service level objectives) of a request: time to the first token and time between tokens.
 *
 * The same record is used everywhere, whether a header, `nvext.router`, the caller's API key or the policy class has
 * set it.
 */
export interface LatencyGoals {
  /** Time from arrival to the first token (TTFT). */
  readonly ttftMs?: number
  /** Mean time between the following tokens (ITL). */
  readonly itlMs?: number
  /** Absolute deadline of the first token, set by the router on its own clock. */
  readonly firstTokenByMs?: number
}

/** Goals must be above 0 and at most one hour. */
export const GOAL_MAX_MS = 3_600_000

export function isGoalMs(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value <= GOAL_MAX_MS
}

/** Each goal from the first source that sets it; undefined if no source sets any. */
export function goalsOfFirst(
  ...sources: readonly (LatencyGoals | undefined)[]
): LatencyGoals | undefined {
  const ttftMs = sources.find((goals) => goals?.ttftMs !== undefined)?.ttftMs
  const itlMs = sources.find((goals) => goals?.itlMs !== undefined)?.itlMs
  if (ttftMs === undefined && itlMs === undefined) return undefined
  return {
    ...(ttftMs === undefined ? {} : { ttftMs }),
    ...(itlMs === undefined ? {} : { itlMs }),
  }
}
