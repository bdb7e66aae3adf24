/**
 * The requests that are sent for each leg (a leg is one phase of a request on one worker: prefill, decode, or both
 * when aggregated). The prefill leg generates one token; the decode leg has the client's own limits and the
 * hand-over.
 */
import { randomInt } from '../../base/index.ts'
import type { Random, WorkerId } from '../../base/index.ts'
import { bootstrapAddress } from '../../request/index.ts'
import type {
  BootstrapInfo,
  GenerateRequest,
  PrefillResult,
  RoutingHints,
  WorkerCard,
} from '../../request/index.ts'
import type { Selection } from '../decide/selection.ts'

/** The same request limited to one output token (and a minimum of at most one). */
export function prefillRequest(request: GenerateRequest): GenerateRequest {
  const { minTokens } = request.stop
  const one =
    minTokens === undefined ? { maxTokens: 1 } : { maxTokens: 1, minTokens: Math.min(minTokens, 1) }
  return { ...request, stop: Object.assign({}, request.stop, one) }
}

/** The same request with these workers excluded. */
export function withoutWorkers(
  request: GenerateRequest,
  workerIds: readonly WorkerId[],
): GenerateRequest {
  if (workerIds.length === 0) return request
  const { routing } = request
  const excludedWorkerIds = [...(routing.excludedWorkerIds ?? []), ...workerIds]
  return { ...request, routing: { ...routing, excludedWorkerIds } }
}

/** The prefill request for the chosen worker. */
export function placedPrefillRequest(
  request: GenerateRequest,
  selection: Selection,
  bootstrap: BootstrapInfo | null,
): GenerateRequest {
  const routing = Object.assign({}, request.routing, {
    prefillWorkerId: selection.workerId,
    prefillDpRank: selection.dpRank,
  })
  return bootstrap === null
    ? { ...request, routing }
    : Object.assign({}, request, { routing, bootstrap })
}

export interface HandOver {
  readonly routing: RoutingHints
  readonly prefillResult?: PrefillResult
  readonly bootstrap?: BootstrapInfo
}

/**
 * The decode request: the client's own limits, the hand-over, and overrides that remove prefill from the cost: no
 * overlap credit (unless conditional disaggregation uses it), no reuse assumed, no prefill tracked. Other overrides
 * of the client are kept.
 */
export function decodeRequest(
  request: GenerateRequest,
  handOver: HandOver,
  keepsOverlapCredit: boolean,
): GenerateRequest {
  const overrides = Object.assign({}, handOver.routing.overrides, {
    assumeKvReuse: false,
    trackPrefillTokens: false,
    ...(keepsOverlapCredit ? {} : { overlapScoreCredit: 0 }),
  })
  const routing = Object.assign({}, handOver.routing, { overrides })
  return Object.assign({}, request, handOver, { routing })
}

/** The bootstrap address at which both legs meet; null if the prefill worker does not have one. */
export function bootstrapOf(
  card: WorkerCard,
  dpRank: number,
  random: Random,
): BootstrapInfo | null {
  const address = bootstrapAddress(card)
  if (address === null) return null
  const room = bootstrapRoom(random, dpRank, card.engine.dataParallelSize ?? 0)
  return { ...address, room: room.toString() }
}

const MAX_BOOTSTRAP_ROOM = (1n << 63n) - 1n

/** A random room number, uniform below 2^63; with several ranks, `room mod ranks` is the rank (SGLang's convention). */
export function bootstrapRoom(random: Random, dpRank: number, ranks: number): bigint {
  const draw =
    (BigInt(randomInt(random, 0x80000000)) << 32n) | BigInt(randomInt(random, 0x100000000))
  if (ranks <= 0) return draw
  const size = BigInt(ranks)
  const rank = BigInt(dpRank)
  const quotients = (MAX_BOOTSTRAP_ROOM - rank) / size + 1n
  return (draw % quotients) * size + rank
}

/** The bootstrap address in an engine's prefill result, if it has one. */
export function bootstrapFromResult(result: PrefillResult): BootstrapInfo | null {
  const params = result.engineParams
  if (typeof params !== 'object' || params === null) return null
  const fields = params as Record<string, unknown>
  const { bootstrap_host: host, bootstrap_port: port, bootstrap_room: room } = fields
  if (typeof host !== 'string' || typeof port !== 'number') return null
  if (typeof room !== 'string' && typeof room !== 'number' && typeof room !== 'bigint') return null
  return { host, port, room: String(room) }
}
