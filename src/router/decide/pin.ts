/** The worker that a request names itself (a pin), by phase. A pin is followed exactly or the request is refused. */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { Phase, RoutingHints } from '../../request/index.ts'
import type { RouterMode } from '../configuration/router-config.ts'
import type { RankTable } from '../ranks/rank-table.ts'

export interface Pin {
  readonly workerId: WorkerId
  readonly dpRank: number | null
}

export function pinOf(hints: RoutingHints, phase: Phase): Pin | null {
  const isPrefill = phase === 'prefill'
  const workerId =
    (isPrefill ? hints.prefillWorkerId : hints.decodeWorkerId) ?? hints.backendWorkerId
  if (workerId === undefined) return null
  const dpRank = isPrefill ? (hints.prefillDpRank ?? hints.dpRank) : hints.dpRank
  return { workerId, dpRank: dpRank ?? null }
}

/** True if the client names a worker or a rank for prefill, so that the request cannot run in one leg. */
export function pinsPrefill({ prefillWorkerId, prefillDpRank }: RoutingHints): boolean {
  return prefillWorkerId !== undefined || prefillDpRank !== undefined
}

/**
 * The error when a request must name its worker and does not: always in direct mode; with two legs if the header
 * names the worker of the other leg.
 */
export function missingPin(phase: Phase, mode: RouterMode = 'direct'): BatonError {
  const header =
    phase === 'prefill' ? 'x-dynamo-prefill-instance-id' : 'x-dynamo-worker-instance-id'
  const who = mode === 'direct' ? 'direct mode' : 'a request with x-dynamo-worker-instance-id'
  return new BatonError(
    'request.invalid_argument',
    `${who} needs the ${phase} worker's id: send the header ${header}`,
    { data: { header, phase } },
  )
}

/** The slot of a pinned rank, or the error that explains why there is none. */
export function pinnedSlot(table: RankTable, pin: Pin, phase: Phase): number | BatonError {
  const slots = table.slotsOf(pin.workerId)
  const data = { workerId: pin.workerId, phase }
  if (slots.length === 0) {
    return new BatonError(
      'backend.worker_unavailable',
      `the named ${phase} worker ${pin.workerId} is not registered`,
      { data },
    )
  }
  if (pin.dpRank === null) {
    if (slots.length === 1) return slots[0] as number
    return new BatonError(
      'request.invalid_argument',
      `${phase} worker ${pin.workerId} has ${slots.length} data-parallel ranks: naming it requires an explicit dp_rank`,
      { data: { ...data, ranks: slots.length } },
    )
  }
  const slot = table.slotOf(pin.workerId, pin.dpRank)
  if (slot !== -1) return slot
  return new BatonError(
    'request.invalid_argument',
    `${phase} worker ${pin.workerId} has no data-parallel rank ${pin.dpRank}`,
    { data: { ...data, dpRank: pin.dpRank } },
  )
}
