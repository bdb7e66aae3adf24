/**
 * Plans the hand-over before the prefill runs: where the KV comes from, which constraints on the decode worker
 * follow, and whether any worker satisfies them.
 */
import type { Random } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { bootstrapOf } from './leg-requests.ts'
import type { HandOver } from './leg-requests.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { Selection } from '../decide/selection.ts'
import { mergeTopology } from '../configuration/topology.ts'
import type { WorkerRouter } from './worker-router.ts'

interface HandOverPools {
  readonly decode: WorkerRouter
  readonly config: RouterConfig
  readonly random: Random
}

/** Throws if a required constraint cannot be met (fails closed; nothing has run yet). */
export function planHandOver(
  { config, random, decode }: HandOverPools,
  request: GenerateRequest,
  { card, dpRank, workerId }: Selection,
): HandOver {
  const before = request.routing
  const merged = mergeTopology(before, card, config.topology)
  const prefill = { prefillWorkerId: workerId, prefillDpRank: dpRank }
  const routing = Object.assign({}, merged, prefill)
  // On a retry there may be no decode worker left; do not compute a prefill that nobody could decode.
  const isElsewhere = (before.excludedWorkerIds?.length ?? 0) > 0
  if (isElsewhere || merged.requiredTaints !== before.requiredTaints) {
    const answer = decode.peek({ ...request, routing }, 'decode')
    if (answer.kind === 'refused' && !answer.overloaded) throw answer.error
  }
  const bootstrap = bootstrapOf(card, dpRank, random)
  return bootstrap === null ? { routing } : { routing, bootstrap }
}
