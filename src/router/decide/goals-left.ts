/**
 * How much of its latency goals a request has left when it is placed.
 *
 * Goals are used only with `cost: time` and reliable predictions; otherwise there are no goals to meet.
 */
import type { GenerateRequest, LatencyGoals } from '../../request/index.ts'
import type { PolicyClass } from '../configuration/policy-class.ts'
import { classOf } from '../configuration/policy-class.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { RankRates } from '../load/rank-rates.ts'
import type { SelectionQuery } from './selection.ts'

/** In milliseconds; Infinity if there is no such goal. */
export interface GoalsLeft {
  readonly ttftMs: number
  readonly itlMs: number
}

/**
 * The goals of the class that a request with this class name belongs to. `uncachedTokens` is null while the prompt is
 * not tokenized.
 */
export function goalsOfClass(
  classes: readonly PolicyClass[],
  name: string | undefined,
  uncachedTokens: (() => number) | null,
): LatencyGoals | undefined {
  const policyClass = classOf(classes, name, uncachedTokens)
  const { ttftTargetMs = null, itlTargetMs = null } = policyClass ?? {}
  if (ttftTargetMs === null && itlTargetMs === null) return undefined
  return {
    ...(ttftTargetMs === null ? {} : { ttftMs: ttftTargetMs }),
    ...(itlTargetMs === null ? {} : { itlMs: itlTargetMs }),
  }
}

export function goalsLeft(
  config: RouterConfig,
  rates: RankRates,
  query: SelectionQuery,
  nowMs: number,
): GoalsLeft | null {
  const { kind, routing } = query.request
  const { goals } = routing
  if (goals === undefined || kind === 'embed' || config.cost !== 'time' || !rates.isTrusted)
    return null
  const { ttftMs = Infinity, itlMs = Infinity } = goals
  const isOpen = awaitsFirstToken(query.request) && Number.isFinite(ttftMs)
  const dueMs = goals.firstTokenByMs ?? nowMs - query.queuedMs + ttftMs
  return {
    ttftMs: isOpen ? dueMs - nowMs : Infinity,
    itlMs: query.phase === 'prefill' ? Infinity : itlMs,
  }
}

/** False for embeddings, and for a migrated request, which has already had its first token. */
export function awaitsFirstToken({ kind, resumedTokens = 0 }: GenerateRequest): boolean {
  return kind !== 'embed' && resumedTokens === 0
}

/** Total time by which the goals are missed; if any goal is missed, at least one millisecond. */
export function lateMs(
  left: GoalsLeft,
  ttftMs: number,
  itlMs: number,
  outputTokens: number,
): number {
  const first = Math.max(ttftMs - left.ttftMs, 0)
  const others = Math.max(itlMs - left.itlMs, 0) * outputTokens
  const late = first + others
  return late === 0 ? 0 : Math.max(late, 1)
}
