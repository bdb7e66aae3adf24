/** The refusal of a request whose latency goals no worker is predicted to meet. */
import { BatonError } from '../../base/index.ts'
import type { DecisionScope } from './decision-scope.ts'
import type { GoalsLeft } from './goals-left.ts'

/** The prediction for the rank that would miss the goals least. */
export interface LateCandidate {
  readonly lateMs: number
  readonly ttftMs: number
  readonly itlMs: number
}

const RETRY_MS_MIN = 1000
const RETRY_MS_MAX = 30_000

/** `late` milliseconds of load have to be worked off before the goal can be met: they become the retry time. */
export function lateError(
  { query }: DecisionScope,
  left: GoalsLeft,
  { lateMs, ttftMs, itlMs }: LateCandidate,
): BatonError {
  const { ttftMs: ttftTargetMs, itlMs: itlTargetMs } = query.request.routing.goals ?? {}
  const isFirst = ttftMs > left.ttftMs
  const [goal, targetMs, predictedMs] = isFirst
    ? (['first token', ttftTargetMs ?? 0, ttftMs] as const)
    : (['time between tokens', itlTargetMs ?? 0, itlMs] as const)
  const retryAfterMs = Math.min(Math.max(Math.ceil(lateMs), RETRY_MS_MIN), RETRY_MS_MAX)
  return new BatonError(
    'capacity.goal_unreachable',
    `no ${query.phase} worker is predicted to meet the goal of ${targetMs} ms (${goal}): ${rounded(predictedMs)} ms at best`,
    {
      data: {
        stage: query.phase,
        limit: targetMs,
        current: rounded(predictedMs),
        retryAfterMs,
      },
    },
  )
}

/** The goal of a queued request can no longer be met. */
export function lateInQueue(targetMs: number, waitedMs: number, retryAfterMs: number): BatonError {
  return new BatonError(
    'capacity.goal_unreachable',
    `stage 'queue': after ${rounded(waitedMs)} ms no worker can meet the goal of ${targetMs} ms (first token)`,
    {
      data: { stage: 'queue', limit: targetMs, current: rounded(waitedMs), retryAfterMs },
    },
  )
}

const rounded = (ms: number): number => Math.round(10 * ms) / 10
