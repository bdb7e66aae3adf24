/**
 * Asks both pools what `judgeBypass` wants to know, without booking anything.
 */
import type { GenerateRequest } from '../../request/index.ts'
import { judgeBypass } from '../configuration/conditional-policy.ts'
import type { ConditionalFacts, ConditionalVerdict } from '../configuration/conditional-policy.ts'
import { prefillRequest } from './leg-requests.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { Selection } from '../decide/selection.ts'
import type { WorkerRouter } from './worker-router.ts'

interface BypassPools {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly config: RouterConfig
}

interface Bypass extends ConditionalVerdict {
  /** The decode worker that was looked at; the request is pinned to it when the verdict is to bypass. */
  readonly selection: Selection
}

/** Null: the question does not arise (switched off, another mode, the client has chosen, nobody to ask). */
export function considerBypass(pools: BypassPools, request: GenerateRequest): Bypass | null {
  const { config } = pools
  if (!config.conditional.enabled || config.mode !== 'kv') return null
  if (request.tokenIds.length === 0 || request.routing.prefillWorkerId !== undefined) return null
  const selection = pools.decode.peek(request, 'decode')
  if (selection.kind === 'refused') return null
  return { ...judgeBypass(config.conditional, factsOf(pools, request, selection)), selection }
}

/** Prefill and decode on the worker that was looked at. */
export function bypassRequest(request: GenerateRequest, { selection }: Bypass): GenerateRequest {
  const { workerId, dpRank } = selection
  const routing = { ...request.routing, decodeWorkerId: workerId, dpRank, bypassesPrefill: true }
  return { ...request, routing }
}

function factsOf(
  { prefill, decode, config }: BypassPools,
  request: GenerateRequest,
  selection: Selection,
): ConditionalFacts {
  const load = decode.router.loadOf(selection.slot)
  const { policy } = config.conditional
  return {
    promptTokens: request.tokenIds.length,
    decodeEffectiveTokens: selection.effectivePrefillTokens,
    decodeActivePrefillTokens: load.prefillTokens,
    decodeActiveRequests: load.requests,
    decodeProjectedBlocks: selection.potentialDecodeBlocks,
    decodeTotalBlocks: load.totalBlocks > 0 ? load.totalBlocks : null,
    prefill: policy === 'isl_bounding' ? null : prefillFacts(prefill, request),
  }
}

function prefillFacts(
  prefill: WorkerRouter,
  request: GenerateRequest,
): ConditionalFacts['prefill'] {
  const answer = prefill.peek(prefillRequest(request), 'prefill')
  if (answer.kind === 'refused') {
    if (!answer.overloaded) return null
    return { effectiveTokens: 0, activePrefillTokens: 0, maxBatchedTokens: 0, queueRejected: true }
  }
  const load = prefill.router.loadOf(answer.slot)
  return {
    effectiveTokens: answer.effectivePrefillTokens,
    activePrefillTokens: load.prefillTokens,
    maxBatchedTokens: load.maxBatchedTokens,
    queueRejected: false,
  }
}
