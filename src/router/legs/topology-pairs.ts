/**
 * Where KV must stay inside a domain, a prefill worker is only of use if a decode worker of its domain can take the
 * request. Prefill and decode are so chosen as pairs: a prefill worker without a partner is left out.
 */
import type { WorkerId } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { requiredTaint } from '../configuration/topology.ts'
import type { KvRouter } from '../decide/kv-router.ts'

interface Pools {
  readonly prefill: { readonly router: KvRouter }
  readonly decode: { readonly router: KvRouter }
  readonly config: RouterConfig
}

/**
 * Prefill workers that have no partner. None when nobody has one: then the choice goes on, and the hand-over's own check
 * says what is missing.
 */
export function prefillsWithoutPartner(
  { prefill, decode, config }: Pools,
  request: GenerateRequest,
): readonly WorkerId[] {
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
