/** Collects the facts for `judgeBypass` from both pools without booking anything. */
import type { Clock } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { judgeBypass } from '../configuration/conditional-policy.ts'
import type {
  ConditionalFacts,
  ConditionalVerdict,
  PredictedTimes,
} from '../configuration/conditional-policy.ts'
import { decodeRequest, prefillRequest } from './leg-requests.ts'
import { pinsPrefill } from '../decide/pin.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { Refusal, Selection } from '../decide/selection.ts'
import type { WorkerRouter } from './worker-router.ts'

interface BypassPools {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly config: RouterConfig
  readonly clock: Clock
}

interface Bypass extends ConditionalVerdict {
  /** The decode worker that was evaluated; on bypass the request is pinned to it. */
  readonly selection: Selection
  /** The name of the policy, or `predicted times`. */
  readonly decidedBy: string
}

/** Null if there is nothing to decide: switched off, another mode, the client has chosen, or no worker to evaluate. */
export function considerBypass(pools: BypassPools, request: GenerateRequest): Bypass | null {
  const { config } = pools
  if (!config.conditional.enabled || config.mode !== 'kv') return null
  if (request.tokenIds.length === 0 || pinsPrefill(request.routing)) return null
  const selection = pools.decode.peek(request, 'decode')
  if (selection.kind === 'refused') return null
  const byTimes = isPredicted(pools)
  const asksPrefill = byTimes || config.conditional.policy !== 'isl_bounding'
  const prefill = asksPrefill ? pools.prefill.peek(prefillRequest(request), 'prefill') : null
  const times = byTimes ? timesOf(pools, request, selection, prefill) : null
  return {
    selection,
    decidedBy: times === null ? config.conditional.policy : 'predicted times',
    ...judgeBypass(config.conditional, factsOf(pools, request, selection, prefill), times),
  }
}

/** The request as an aggregated request for the worker that was evaluated. */
export function bypassRequest(request: GenerateRequest, { selection }: Bypass): GenerateRequest {
  const { workerId, dpRank } = selection
  const routing = { ...request.routing, decodeWorkerId: workerId, dpRank, bypassesPrefill: true }
  return { ...request, routing }
}

/**
 * True if predictions of prompt times are reliable in at least one pool; the other pool is assumed to be alike at
 * first.
 */
function isPredicted({ prefill, decode, config }: BypassPools): boolean {
  const [first, second] = [prefill.router.forecasts, decode.router.forecasts]
  if (config.cost !== 'time' || first.isLost || second.isLost) return false
  return first.isTrusted || second.isTrusted
}

/** Null if one of the two paths is not available now. */
function timesOf(
  { prefill, decode, config, clock }: BypassPools,
  request: GenerateRequest,
  selection: Selection,
  first: Selection | Refusal | null,
): PredictedTimes | null {
  if (first === null || first.kind === 'refused') return null
  const routing = { prefillWorkerId: first.workerId, ...request.routing }
  const second = decode.peek(decodeRequest(request, { routing }, true), 'decode')
  if (second.kind === 'refused') return null
  const { forecasts } = prefill.router
  const here = decode.router.forecasts.promptAt(selection, forecasts)
  const apart = forecasts.promptAt(first, decode.router.forecasts)
  const { transferTokensFixed, transferTokensPerToken } = config.conditional
  const moved = second.effectivePrefillTokens
  const pair = { from: first.workerId, to: second.workerId }
  const { msPerToken } = forecasts.isTrusted ? forecasts : decode.router.forecasts
  const assumedMs = msPerToken * (transferTokensFixed + transferTokensPerToken * moved)
  return {
    here: { wait: here.waitMs, prompt: here.promptMs, others: here.othersMs },
    apart: {
      wait: apart.waitMs + forecasts.outsideMs(prefill.waitingPromptTokens),
      prompt: apart.promptMs,
      others: apart.othersMs,
      transfer: decode.router.transfers.predictMs(pair, moved, assumedMs, clock.nowMs()),
      decode: decode.router.forecasts.outputMs(second),
    },
  }
}

function factsOf(
  { prefill, decode }: BypassPools,
  request: GenerateRequest,
  selection: Selection,
  first: Selection | Refusal | null,
): ConditionalFacts {
  const load = decode.router.loadOf(selection.slot)
  return {
    promptTokens: request.tokenIds.length,
    decodeEffectiveTokens: selection.effectivePrefillTokens,
    decodeActivePrefillTokens: load.prefillTokens,
    decodeActiveRequests: load.requests,
    decodeProjectedBlocks: selection.potentialDecodeBlocks,
    decodeTotalBlocks: load.totalBlocks > 0 ? load.totalBlocks : null,
    prefill: first === null ? null : prefillFacts(prefill, first),
  }
}

function prefillFacts(
  prefill: WorkerRouter,
  answer: Selection | Refusal,
): ConditionalFacts['prefill'] {
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
