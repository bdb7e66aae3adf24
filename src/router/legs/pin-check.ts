/**
 * Checks the client's pins before a worker is chosen: a worker id that does not exist, a pin for a leg that the
 * request does not have, a rank that no worker has. These are errors of the request (400); a retry would not help.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { isSilent } from '../../request/index.ts'
import type { RoutingHints, WorkerCard } from '../../request/index.ts'
import type { RouterMode } from '../configuration/router-config.ts'
import { requiredTaint, topologyTaints } from '../configuration/topology.ts'
import type { TopologyPolicy } from '../configuration/topology.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import { missingPin } from '../decide/pin.ts'

interface PinScope {
  readonly prefill: KvRouter
  readonly decode: KvRouter
  /** The pool whose ranks `dp_rank` names. */
  readonly ranks: KvRouter
  readonly mode: RouterMode
  readonly topology: TopologyPolicy | null
  /** Null if the request has two legs; otherwise the reason why not. */
  readonly whyOneLeg: string | null
}

/** Null if every pin can be followed. */
export function pinRefusal(hints: RoutingHints, scope: PinScope): BatonError | null {
  const { prefill, decode } = scope
  // Without workers there is nothing to check: the request is queued or fails for lack of workers.
  if (decode.workerCount === 0) return null
  return (
    decodeRefusal('backend_instance_id', hints.backendWorkerId, hints, scope) ??
    decodeRefusal('decode_worker_id', hints.decodeWorkerId, hints, scope) ??
    twoDecodeWorkers(hints) ??
    prefillRefusal(hints, scope) ??
    rankRefusal('dp_rank', hints.dpRank, scope.ranks) ??
    (scope.whyOneLeg === null
      ? (rankRefusal('prefill_dp_rank', hints.prefillDpRank, prefill) ??
        // Before the prompt is computed, not after.
        decode.pinnedRankFault(hints, 'decode') ??
        topologyRefusal(hints, scope))
      : null)
  )
}

function prefillRefusal(hints: RoutingHints, scope: PinScope): BatonError | null {
  const { prefillWorkerId, prefillDpRank, backendWorkerId, decodeWorkerId } = hints
  const { prefill, mode, whyOneLeg } = scope
  if (whyOneLeg !== null) {
    const named = prefillWorkerId === undefined ? 'prefill_dp_rank' : 'prefill_worker_id'
    if (prefillWorkerId === undefined && prefillDpRank === undefined) return null
    return refused(named, `the request has no prefill phase of its own: ${whyOneLeg}`)
  }
  if (prefillWorkerId !== undefined) {
    const card = prefill.cardOf(prefillWorkerId)
    if (card !== null) return unfit('prefill_worker_id', card, hints)
    return refused('prefill_worker_id', `no prefill worker has the id ${prefillWorkerId}`)
  }
  // The worker header names the worker of both legs, and a decode worker does not run prefill legs.
  const isHeader = backendWorkerId !== undefined && decodeWorkerId !== undefined
  if (isHeader || mode === 'direct') return missingPin('prefill', mode)
  return prefillDpRank !== undefined &&
    backendWorkerId !== undefined &&
    decodeWorkerId === undefined
    ? refused(
        'prefill_dp_rank',
        'cannot be used: `backend_instance_id` names one worker for both phases',
      )
    : null
}

function decodeRefusal(
  param: string,
  workerId: WorkerId | undefined,
  hints: RoutingHints,
  { prefill, decode, whyOneLeg }: PinScope,
): BatonError | null {
  if (workerId === undefined) return null
  const card = decode.cardOf(workerId)
  if (card === null) {
    return prefill.cardOf(workerId) === null
      ? refused(param, `no worker has the id ${workerId}`)
      : refused(param, `worker ${workerId} is a prefill worker and does not decode`)
  }
  const isOfTwoLegs = param === 'decode_worker_id' || hints.prefillWorkerId !== undefined
  if (isOfTwoLegs && whyOneLeg === null && card.mode !== 'decode') {
    return refused(
      param,
      `worker ${workerId} does not take the KV of others: its mode is ${card.mode}`,
    )
  }
  return unfit(param, card, hints)
}

/** The worker lacks what the same request requires. */
function unfit(
  param: string,
  card: WorkerCard,
  { loraName, requiredTaints = [], needsStatedFeatures }: RoutingHints,
): BatonError | null {
  const { workerId, engine } = card
  if (needsStatedFeatures === true && isSilent(card)) {
    const why = 'does not state the features of its engine (Baton 0.1), and the request needs some'
    return refused(param, `worker ${workerId} ${why}`)
  }
  if (loraName !== undefined && engine.loraAdapters?.includes(loraName) !== true) {
    return refused(param, `worker ${workerId} does not have the adapter \`${loraName}\``)
  }
  const taints = [...(card.taints ?? []), ...topologyTaints(card)]
  const missing = requiredTaints.find((taint) => !taints.includes(taint))
  return missing === undefined
    ? null
    : refused(param, `worker ${workerId} does not have the required taint \`${missing}\``)
}

/** Both fields name the decode worker; if they differ, the request is contradictory. */
function twoDecodeWorkers({ backendWorkerId, decodeWorkerId }: RoutingHints): BatonError | null {
  if (backendWorkerId === undefined || decodeWorkerId === undefined) return null
  if (backendWorkerId === decodeWorkerId) return null
  return refused(
    'decode_worker_id',
    `names ${decodeWorkerId}, but \`backend_instance_id\` names ${backendWorkerId}: both name the decode worker`,
  )
}

/** Topology forbids KV transfer between the two named workers, or from or to the one that is named. */
function topologyRefusal(hints: RoutingHints, scope: PinScope): BatonError | null {
  const { prefill, decode, topology } = scope
  const { prefillWorkerId: from, decodeWorkerId, backendWorkerId } = hints
  const mayTake = (to: WorkerCard, kv: WorkerCard): boolean => {
    const taint = requiredTaint(kv, topology)
    return taint === null || topologyTaints(to).includes(taint)
  }
  if (from === undefined) {
    const to = decodeWorkerId === undefined ? null : decode.cardOf(decodeWorkerId)
    if (to === null || prefill.cards.some((card) => mayTake(to, card))) return null
    const what = `no prefill worker is in the ${domainOf(scope)} of worker ${to.workerId}, where KV must stay`
    return refused('decode_worker_id', what)
  }
  const kv = prefill.cardOf(from)
  if (kv === null) return null
  const named = decodeWorkerId ?? backendWorkerId
  if (named === undefined) {
    if (decode.cards.some((card) => card.mode === 'decode' && mayTake(card, kv))) return null
    const what = `no decode worker is in ${requiredTaint(kv, topology)}, where the KV of worker ${from} must stay`
    return refused('prefill_worker_id', what)
  }
  const to = decode.cardOf(named)
  if (to === null || mayTake(to, kv)) return null
  const what = `worker ${named} may not take the KV of prefill worker ${from}: it is not in ${requiredTaint(kv, topology)} (required)`
  return refused('decode_worker_id', what)
}

const domainOf = ({ topology }: PinScope): string => topology?.domain ?? 'domain'

function rankRefusal(param: string, rank: number | undefined, pool: KvRouter): BatonError | null {
  if (rank === undefined || pool.workerCount === 0 || pool.hasRank(rank)) return null
  return refused(param, `no worker has the data-parallel rank ${rank}`)
}

function refused(param: string, what: string): BatonError {
  return new BatonError('request.invalid_argument', `\`${param}\`: ${what}`, { data: { param } })
}
