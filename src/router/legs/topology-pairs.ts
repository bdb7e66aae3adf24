/**
 * Where KV must stay inside a domain, a prefill worker is only of use if a decode worker of its domain can take the
 * request. Prefill and decode are so chosen as pairs: a prefill worker without a partner is left out.
 */
import type { WorkerId } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { requiredTaint, topologyTaints } from '../configuration/topology.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import type { Unpaired } from '../load/router-status.ts'

interface Pools {
  readonly prefill: { readonly router: KvRouter }
  readonly decode: { readonly router: KvRouter }
  readonly config: RouterConfig
}

/** What the fleet has of workers that no pair can be made of: their KV may not travel to, or from, anybody. */
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
 * Prefill workers that have no partner. None when nobody has one, or when the client has named the worker: then the choice
 * goes on, and the hand-over's own check says what is missing.
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
