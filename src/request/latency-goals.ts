/**
 * What a request is to keep (its service level objective): how soon its first token comes, and how fast the others follow.
 *
 * One record from the edge to the router, whoever has set it: a header, `nvext.router`, the caller's key or the class.
 */
export interface LatencyGoals {
  /** From arrival to the first token (TTFT). */
  readonly ttftMs?: number
  /** Mean time between the tokens behind it (ITL). */
  readonly itlMs?: number
  /** Set by the router, on its own clock. */
  readonly firstTokenByMs?: number
}

/** Goals are above 0 and at most this: an hour. */
export const GOAL_MAX_MS = 3_600_000

export function isGoalMs(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value <= GOAL_MAX_MS
}

/** Each goal of the first that says it; undefined: nobody does. */
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
