/**
 * If KV must stay inside a domain, a prefill worker is useful only if a decode worker of the same domain can take the
 * request. Prefill workers without such a partner are excluded, so that both are chosen as a pair.
 */
import type { WorkerId } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { requiredTaint, topologyTaints } from '../configuration/topology.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import type { Unpaired } from '../ranks/router-status.ts'

interface Pools {
  readonly prefill: { readonly router: KvRouter }
  readonly decode: { readonly router: KvRouter }
  readonly config: RouterConfig
}

/** How many workers have no partner in their domain, so that no KV may be transferred to or from them. */
export function unpairedOf({ prefill, decode, config }: Pools): Unpaired | null {
  const required = prefill.router.cards.map((card) => requiredTaint(card, config.topology))
  if (required.length === 0 || required.includes(null)) return null
  const places = decode.router.cards
    .filter(({ mode }) => mode === 'decode')
    .map((card) => new Set(topologyTaints(card)))
  if (places.length === 0) return null
  const wanted = required.filter((taint) => taint !== null)
  return {
    prefill: wanted.filter((taint) => !places.some((taints) => taints.has(taint))).length,
    prefillAll: wanted.length,
    decode: places.filter((taints) => !wanted.some((taint) => taints.has(taint))).length,
    decodeAll: places.length,
  }
}

/**
 * Prefill workers without a partner. Empty if no worker has one or the client named the worker: the choice then
 * continues, and the check of the hand-over reports what is missing.
 */
export function prefillsWithoutPartner(
  { prefill, decode, config }: Pools,
  request: GenerateRequest,
): readonly WorkerId[] {
  if (request.routing.prefillWorkerId !== undefined) return []
  const cards = prefill.router.cards
  const required = cards.map((card) => requiredTaint(card, config.topology))
  if (required.every((taint) => taint === null)) return []
  const query = { request, phase: 'decode', queuedMs: 0 } as const
  const places = new Set<string>()
  for (const slot of decode.router.eligible(query)) {
    for (const taint of decode.router.taintsOf(slot)) places.add(taint)
  }
  const lonely = cards.filter((_, i) => {
    const taint = required[i] ?? null
    return taint !== null && !places.has(taint)
  })
  return lonely.length === cards.length ? [] : lonely.map(({ workerId }) => workerId)
}
