/**
 * Where KV may travel: the chosen prefill worker's place becomes a constraint on the decode worker.
 *
 * A worker's place is given by taints `dynamo.topology/<domain>=<value>`, made from its card's `topology`.
 * `required` keeps decode inside the domain, `preferred` makes it cheaper there.
 */
import { BatonError } from '../../base/index.ts'
import type { RoutingHints, WorkerCard } from '../../request/index.ts'

export interface TopologyPolicy {
  readonly domain: string
  readonly enforcement: 'required' | 'preferred'
  readonly preferredWeight?: number
}

const TAINT_PREFIX = 'dynamo.topology/'
const DEFAULT_PREFERRED_WEIGHT = 1

export function topologyTaints(card: WorkerCard): readonly string[] {
  return Object.entries(card.topology ?? {}).map(([domain, value]) => topologyTaint(domain, value))
}

function topologyTaint(domain: string, value: string): string {
  return `${TAINT_PREFIX}${domain}=${value}`
}

/** A card's own policy (in `runtimeData`) takes precedence over the router's. */
function topologyPolicyOf(card: WorkerCard, fallback: TopologyPolicy | null) {
  const data = card.engine.runtimeData ?? {}
  const domain = data['kv_transfer_domain']
  if (typeof domain !== 'string' || domain === '') return fallback
  const weight = data['kv_transfer_preferred_weight']
  const enforcement = data['kv_transfer_enforcement'] === 'preferred' ? 'preferred' : 'required'
  const policy: TopologyPolicy = { domain, enforcement }
  return typeof weight === 'number' ? { ...policy, preferredWeight: weight } : policy
}

/** What a decode worker must have to take this prefill worker's KV; null: nothing. A taint that no worker has when it has no place. */
export function requiredTaint(card: WorkerCard, fallback: TopologyPolicy | null): string | null {
  const policy = topologyPolicyOf(card, fallback)
  if (policy === null || policy.enforcement !== 'required') return null
  return topologyTaint(policy.domain, card.topology?.[policy.domain] ?? '')
}

/**
 * The decode leg's hints with the constraints that follow from the prefill worker. Fails closed: where a required
 * policy cannot be followed (no card, no place in the domain) it throws, and the caller has not run prefill yet.
 */
export function mergeTopology(
  hints: RoutingHints,
  prefillCard: WorkerCard | null,
  fallback: TopologyPolicy | null,
): RoutingHints {
  const policy = prefillCard === null ? fallback : topologyPolicyOf(prefillCard, fallback)
  if (policy === null) return hints
  const value = prefillCard?.topology?.[policy.domain]
  if (value === undefined) {
    if (policy.enforcement === 'preferred') return hints
    throw new BatonError(
      'backend.worker_unavailable',
      prefillCard === null
        ? `topology: KV must stay inside '${policy.domain}', but the prefill worker is not known`
        : `topology: KV must stay inside '${policy.domain}', but prefill worker ${prefillCard.workerId} has no such domain`,
      { data: { stage: 'prefill', domain: policy.domain } },
    )
  }
  const taint = topologyTaint(policy.domain, value)
  if (policy.enforcement === 'required') {
    return { ...hints, requiredTaints: [...(hints.requiredTaints ?? []), taint] }
  }
  const weight = policy.preferredWeight ?? DEFAULT_PREFERRED_WEIGHT
  return { ...hints, preferredTaints: { ...hints.preferredTaints, [taint]: weight } }
}
