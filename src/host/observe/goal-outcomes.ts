/**
 * Whether a request met its latency goals, as its client saw it.
 */
import type { FrontendEventOf } from '../../frontend/index.ts'

interface GoalOutcome {
  readonly goal: 'ttft' | 'itl'
  /** `refused`: the request was refused because the goal could not be met. */
  readonly outcome: 'met' | 'missed' | 'refused'
}

type End = Pick<
  FrontendEventOf<'ended'>,
  'outcome' | 'errorCode' | 'ttftMs' | 'itlMs' | 'ttftTargetMs' | 'itlTargetMs' | 'durationMs'
>

/** No outcome for a goal that cannot be judged: the client disconnected in time, or there was a single token. */
export function goalOutcomes(end: End): readonly GoalOutcome[] {
  const outcomes: GoalOutcome[] = []
  const isRefused = end.errorCode === 'capacity.goal_unreachable'
  const hasFailed = end.outcome === 'error'
  if (end.ttftTargetMs !== undefined) {
    const ttftMs = end.ttftMs ?? (hasFailed ? Infinity : undefined)
    // A client that disconnected before the first token, but after it was due, counts as missed.
    const seenMs = ttftMs ?? (end.durationMs > end.ttftTargetMs ? Infinity : undefined)
    const outcome = isRefused ? 'refused' : verdictOf(seenMs, end.ttftTargetMs)
    if (outcome !== null) outcomes.push({ goal: 'ttft', outcome })
  }
  if (end.itlTargetMs !== undefined) {
    const itlMs = end.itlMs ?? (hasFailed ? Infinity : undefined)
    const outcome = isRefused ? 'refused' : verdictOf(itlMs, end.itlTargetMs)
    if (outcome !== null) outcomes.push({ goal: 'itl', outcome })
  }
  return outcomes
}

function verdictOf(seenMs: number | undefined, targetMs: number): 'met' | 'missed' | null {
  if (seenMs === undefined) return null
  return seenMs <= targetMs ? 'met' : 'missed'
}
