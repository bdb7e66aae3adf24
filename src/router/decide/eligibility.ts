/**
 * Who may take a request at all, and if not, why: hard rules before any cost.
 *
 * Order: allowed ids, excluded ids, LoRA adapter, role, fence, taints, the user's filters, overload. Overload comes last, so that
 * "would be eligible but for the load" can be told from "never".
 */
import type { WorkerId } from '../../base/index.ts'
import type { Phase, RoutingHints } from '../../request/index.ts'
import { pinOf } from './pin.ts'
import type { RankTable } from '../load/rank-table.ts'

type ExclusionKind =
  | 'not-allowed'
  | 'excluded'
  | 'missing-adapter'
  | 'not-a-decode-worker'
  | 'fenced'
  | 'missing-taint'
  | 'other-rank'
  | 'filtered'
  | 'overloaded'
  /** Takes nothing more now, and another one does. */
  | 'full'

export interface Exclusion {
  readonly kind: ExclusionKind
  readonly detail?: string
}

/** The part of a request that narrows the candidates. */
export interface Constraints {
  readonly allowed: ReadonlySet<WorkerId> | null
  readonly excluded: ReadonlySet<WorkerId> | null
  /** Workers that have the LoRA adapter of the request; null when no worker has it, or one worker is named. */
  readonly withAdapter: ReadonlySet<WorkerId> | null
  readonly requiredTaints: readonly string[]
  /** The rank that the request asks for without naming a worker; null: any. */
  readonly dpRank: number | null
  /** KV is handed to decode workers only; a pool without any has no such rule. */
  readonly decodeOnly: boolean
  /** A fence is a suspicion; when no other is left, a suspect is better than none. */
  readonly ignoresFences?: boolean
}

const NO_TAINTS: readonly string[] = []

export function constraintsOf(hints: RoutingHints, phase: Phase, table: RankTable): Constraints {
  const allowed = hints.allowedWorkerIds === undefined ? null : new Set(hints.allowedWorkerIds)
  return {
    allowed,
    withAdapter: pinOf(hints, phase) === null ? withAdapter(hints, allowed, table) : null,
    excluded:
      hints.excludedWorkerIds === undefined || hints.excludedWorkerIds.length === 0
        ? null
        : new Set(hints.excludedWorkerIds),
    requiredTaints: hints.requiredTaints ?? NO_TAINTS,
    dpRank: rankOf(hints, phase),
    decodeOnly: phase === 'decode',
  }
}

/** A rank without a worker holds for every worker; with one it belongs to the pin. */
function rankOf(hints: RoutingHints, phase: Phase): number | null {
  if (pinOf(hints, phase) !== null) return null
  return (phase === 'prefill' ? hints.prefillDpRank : hints.dpRank) ?? null
}

/** An adapter narrows the candidates, but never to none: an engine may load it when it is asked to. */
function withAdapter(
  { loraName }: RoutingHints,
  allowed: ReadonlySet<WorkerId> | null,
  table: RankTable,
): ReadonlySet<WorkerId> | null {
  const workers = loraName === undefined ? null : table.workersWith(loraName)
  if (workers === null || allowed === null) return workers
  return [...workers].some((workerId) => allowed.has(workerId)) ? workers : null
}

/** Everybody in the pool may take the request, as far as its constraints go. */
export function isUnconstrained(constraints: Constraints, table: RankTable): boolean {
  const { decodeModeCount, workerCount } = table
  return (
    constraints.allowed === null &&
    constraints.excluded === null &&
    constraints.withAdapter === null &&
    constraints.dpRank === null &&
    constraints.requiredTaints.length === 0 &&
    (!constraints.decodeOnly || decodeModeCount === 0 || decodeModeCount === workerCount)
  )
}

const NOT_ALLOWED: Exclusion = { kind: 'not-allowed' }
const EXCLUDED: Exclusion = { kind: 'excluded' }
const NO_ADAPTER: Exclusion = { kind: 'missing-adapter' }
const NOT_DECODE: Exclusion = { kind: 'not-a-decode-worker' }
const FENCED: Exclusion = { kind: 'fenced' }
const OTHER_RANK: Exclusion = { kind: 'other-rank' }
const OVERLOADED: Exclusion = { kind: 'overloaded' }

/** The first rule that the rank breaks, or null. */
export function exclusionOf(
  table: RankTable,
  slot: number,
  constraints: Constraints,
  nowMs: number,
): Exclusion | null {
  const { card, dpRank, taints } = table.row(slot)
  const { allowed, excluded, withAdapter: adapted } = constraints
  if (allowed !== null && !allowed.has(card.workerId)) return NOT_ALLOWED
  if (excluded !== null && excluded.has(card.workerId)) return EXCLUDED
  if (adapted !== null && !adapted.has(card.workerId)) return NO_ADAPTER
  if (constraints.decodeOnly && table.decodeModeCount > 0 && card.mode !== 'decode') {
    return NOT_DECODE
  }
  if (constraints.dpRank !== null && constraints.dpRank !== dpRank) return OTHER_RANK
  if (constraints.ignoresFences !== true && isFenced(table, slot, nowMs)) return FENCED
  for (const taint of constraints.requiredTaints) {
    if (!taints.has(taint)) return { kind: 'missing-taint', detail: taint }
  }
  return isWorkerOverloaded(table, slot) ? OVERLOADED : null
}

export function describeExclusion(exclusion: Exclusion): string {
  return exclusion.detail === undefined ? exclusion.kind : `${exclusion.kind}: ${exclusion.detail}`
}

function isFenced(table: RankTable, slot: number, nowMs: number): boolean {
  const untilMs = table.fencedUntilMs[slot] as number
  if (untilMs === 0) return false
  if (untilMs > nowMs) return true
  table.unfence(slot)
  return false
}

/** A worker is overloaded only when all of its ranks are. */
function isWorkerOverloaded(table: RankTable, slot: number): boolean {
  if (table.overloaded[slot] !== 1) return false
  const ranks = table.slotsOf(table.row(slot).card.workerId)
  return ranks.every((rank) => table.overloaded[rank] === 1)
}
