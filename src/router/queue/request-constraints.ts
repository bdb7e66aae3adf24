/** Which requests have constraints on their workers, and which have already begun; the queue treats these differently. */
import type { RoutingHints } from '../../request/index.ts'
import { pinOf } from '../decide/pin.ts'
import type { SelectionQuery } from '../decide/selection.ts'

/** Its prompt is computed and occupies blocks on a prefill worker, or its client has received a part of the reply. */
export function hasBegun({ request, phase }: SelectionQuery): boolean {
  return phase === 'decode' || (request.resumedTokens ?? 0) > 0
}

/** The hints, or the session that they name, may restrict the candidates. */
export function hasConstraint(routing: RoutingHints): boolean {
  return (
    routing.backendWorkerId !== undefined ||
    routing.prefillWorkerId !== undefined ||
    routing.decodeWorkerId !== undefined ||
    routing.sessionId !== undefined ||
    narrows(routing)
  )
}

/** Nothing in the request restricts the candidates. */
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
    routing.requiredTaints !== undefined ||
    routing.needsStatedFeatures !== undefined
  )
}
