/**
 * What in a request narrows the workers that it may go to, and whether it has begun: by that the queue treats it.
 */
import type { RoutingHints } from '../../request/index.ts'
import { pinOf } from '../decide/pin.ts'
import type { SelectionQuery } from '../decide/selection.ts'

/** Its prompt is computed and holds blocks on a prefill worker, or its client has read a part of the answer. */
export function hasBegun({ request, phase }: SelectionQuery): boolean {
  return phase === 'decode' || (request.resumedTokens ?? 0) > 0
}

/** The hints, or the session that they name, may narrow the candidates. */
export function hasConstraint(routing: RoutingHints): boolean {
  return (
    routing.backendWorkerId !== undefined ||
    routing.prefillWorkerId !== undefined ||
    routing.decodeWorkerId !== undefined ||
    routing.sessionId !== undefined ||
    narrows(routing)
  )
}

/** Nothing in the request narrows the candidates. */
export function isPlain({ request, phase, affinity }: SelectionQuery): boolean {
  const { routing } = request
  return (
    pinOf(routing, phase) === null &&
    (affinity === null || affinity === undefined) &&
    !narrows(routing)
  )
}

function narrows(routing: RoutingHints): boolean {
  return (
    routing.allowedWorkerIds !== undefined ||
    routing.excludedWorkerIds !== undefined ||
    routing.loraName !== undefined ||
    routing.dpRank !== undefined ||
    routing.prefillDpRank !== undefined ||
    routing.requiredTaints !== undefined
  )
}
