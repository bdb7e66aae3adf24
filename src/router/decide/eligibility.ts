/**
 * The hard rules that decide whether a rank may take a request, applied before any cost.
 *
 * Order: allowed ids, excluded ids, stated features, LoRA adapter, role, fence, taints, the user's filters, overload.
 * Overload is checked last, so that "eligible except for the load" can be told from "never eligible".
 */
import type { WorkerId } from '../../base/index.ts'
import { isSilent } from '../../request/index.ts'
import type { Phase, RoutingHints } from '../../request/index.ts'
import { pinOf } from './pin.ts'
import type { RankTable } from '../ranks/rank-table.ts'

type ExclusionKind =
  | 'not-allowed'
  | 'excluded'
  | 'features-not-stated'
  | 'missing-adapter'
  | 'not-a-decode-worker'
  | 'fenced'
  | 'missing-taint'
  | 'other-rank'
  | 'filtered'
  | 'overloaded'
  /** The rank takes no more requests for now, and another rank does. */
  | 'full'
  /** No decode worker in the domain of the rank takes more for now, and one in another domain does. */
  | 'no-place-for-decode'

export interface Exclusion {
  readonly kind: ExclusionKind
  readonly detail?: string
}

/** The part of a request that restricts the candidates. */
export interface Constraints {
  readonly allowed: ReadonlySet<WorkerId> | null
  readonly excluded: ReadonlySet<WorkerId> | null
  /** Workers that generate and do not state the features of their engine are left out. */
  readonly statedFeatures: boolean
  /** Workers that have the request's LoRA adapter, possibly none; null if the request has no adapter. */
  readonly withAdapter: ReadonlySet<WorkerId> | null
  readonly requiredTaints: readonly string[]
  /** The data-parallel rank that the request asks for without naming a worker; null: any. */
  readonly dpRank: number | null
  /** Only workers in decode mode may receive KV. False in a pool that has none. */
  readonly decodeOnly: boolean
  /** Fenced workers are allowed too. A fence is only a suspicion: if no other worker is left, a suspect is used. */
  readonly ignoresFences?: boolean
}

const NO_TAINTS: readonly string[] = []

export function constraintsOf(hints: RoutingHints, phase: Phase, table: RankTable): Constraints {
  const allowed = hints.allowedWorkerIds === undefined ? null : new Set(hints.allowedWorkerIds)
  return {
    allowed,
    statedFeatures: hints.needsStatedFeatures === true,
    withAdapter: hints.loraName === undefined ? null : table.workersWith(hints.loraName),
    excluded:
      hints.excludedWorkerIds === undefined || hints.excludedWorkerIds.length === 0
        ? null
        : new Set(hints.excludedWorkerIds),
    requiredTaints: hints.requiredTaints ?? NO_TAINTS,
    dpRank: rankOf(hints, phase),
    decodeOnly: phase === 'decode',
  }
}

/** A rank without a worker id applies to every worker; a rank with one belongs to the pin. */
function rankOf(hints: RoutingHints, phase: Phase): number | null {
  if (pinOf(hints, phase) !== null) return null
  return (phase === 'prefill' ? hints.prefillDpRank : hints.dpRank) ?? null
}

/** True if the request's constraints exclude no worker of the pool. */
export function isUnconstrained(constraints: Constraints, table: RankTable): boolean {
  const { decodeModeCount, workerCount } = table
  return (
    constraints.allowed === null &&
    constraints.excluded === null &&
    !constraints.statedFeatures &&
    constraints.withAdapter === null &&
    constraints.dpRank === null &&
    constraints.requiredTaints.length === 0 &&
    (!constraints.decodeOnly || decodeModeCount === 0 || decodeModeCount === workerCount)
  )
}

const NOT_ALLOWED: Exclusion = { kind: 'not-allowed' }
const EXCLUDED: Exclusion = { kind: 'excluded' }
const NOT_STATED: Exclusion = { kind: 'features-not-stated' }
const NO_ADAPTER: Exclusion = { kind: 'missing-adapter' }
const NOT_DECODE: Exclusion = { kind: 'not-a-decode-worker' }
const FENCED: Exclusion = { kind: 'fenced' }
const OTHER_RANK: Exclusion = { kind: 'other-rank' }
const OVERLOADED: Exclusion = { kind: 'overloaded' }

/** The first rule that the rank violates, or null. */
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
  if (constraints.statedFeatures && isSilent(card)) return NOT_STATED
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

/** A worker counts as overloaded only if all of its ranks are. */
function isWorkerOverloaded(table: RankTable, slot: number): boolean {
  if (table.overloaded[slot] !== 1) return false
  const ranks = table.slotsOf(table.row(slot).card.workerId)
  return ranks.every((rank) => table.overloaded[rank] === 1)
}
