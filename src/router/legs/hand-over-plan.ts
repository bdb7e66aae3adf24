/**
 * What decode will be told, worked out before prefill runs: where the KV comes from, which constraints follow from that,
 * and whether anybody can meet them.
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

/** Throws when a required constraint cannot be met: fails closed, nothing has run yet. */
export function planHandOver(
  { config, random, decode }: HandOverPools,
  request: GenerateRequest,
  { card, dpRank, workerId }: Selection,
): HandOver {
  const before = request.routing
  const merged = mergeTopology(before, card, config.topology)
  const prefill = { prefillWorkerId: workerId, prefillDpRank: dpRank }
  const routing = Object.assign({}, merged, prefill)
  // Who tries again elsewhere may have no decode worker left: no prefill is computed for nobody.
  const isElsewhere = (before.excludedWorkerIds?.length ?? 0) > 0
  if (isElsewhere || merged.requiredTaints !== before.requiredTaints) {
    const answer = decode.peek({ ...request, routing }, 'decode')
    if (answer.kind === 'refused' && !answer.overloaded) throw answer.error
  }
  const bootstrap = bootstrapOf(card, dpRank, random)
  return bootstrap === null ? { routing } : { routing, bootstrap }
}
