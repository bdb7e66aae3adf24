/**
 * Topology constraints on KV transfer: the domain of the chosen prefill worker (for example its rack) becomes a
 * constraint on the decode worker.
 *
 * A worker's domains are taints of the form `dynamo.topology/<domain>=<value>`, made from its card's `topology`. With
 * `required` the decode worker must be in the same domain; with `preferred` it costs less there.
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

/** The policy in the worker's card (`runtimeData`) takes precedence over the router's own. */
function topologyPolicyOf(card: WorkerCard, fallback: TopologyPolicy | null) {
  const data = card.engine.runtimeData ?? {}
  const domain = data['kv_transfer_domain']
  if (typeof domain !== 'string' || domain === '') return fallback
  const weight = data['kv_transfer_preferred_weight']
  const enforcement = data['kv_transfer_enforcement'] === 'preferred' ? 'preferred' : 'required'
  const policy: TopologyPolicy = { domain, enforcement }
  return typeof weight === 'number' ? { ...policy, preferredWeight: weight } : policy
}

/**
 * The taint that a decode worker must have to receive KV from this prefill worker; null: no constraint. A worker
 * without a value for the domain yields a taint that no worker has.
 */
export function requiredTaint(card: WorkerCard, fallback: TopologyPolicy | null): string | null {
  const policy = topologyPolicyOf(card, fallback)
  if (policy === null || policy.enforcement !== 'required') return null
  return topologyTaint(policy.domain, card.topology?.[policy.domain] ?? '')
}

/**
 * The decode leg's hints plus the constraints that follow from the prefill worker. Fails closed: if a required policy
 * cannot be applied (no card, no value for the domain) it throws, before the prefill has run.
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
