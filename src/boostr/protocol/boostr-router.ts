/**
 * The router role of the dialect `boostr`, without sockets: prefill on the least loaded worker, decode by session
 * affinity and otherwise in turn; every request ends once, with tokens or a typed error that names the stage.
 *
 * queued ──▶ prefill (30, 10 sent; 31 awaited) ──▶ decode (34 sent; 35 … awaited) ──▶ ended
 *
 * Replies are matched by id; messages without a request are counted and dropped. Each stage has a deadline, because
 * the dialect has no error message. With original peers a worker gets one request at a time, and keeps it to its end
 * also when the client leaves, because what it still sends has no id and would be taken for another request's. After a
 * deadline the connection is opened anew for the same reason.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import { ACTIVATION_BYTES_MAX, protocolError } from '../../wire/index.ts'
import type { BoostrLink, BoostrNode, BoostrPeers } from './boostr-link.ts'
import { BoostrMembers } from './boostr-members.ts'
import { TOKEN_END, TOKEN_EOS, decodeBoostr, encodeBoostr } from './boostr-message.ts'
import type { BoostrFrame, BoostrMessage } from './boostr-message.ts'
import { BoostrQueue } from './boostr-queue.ts'
import type { Queued } from './boostr-queue.ts'
import type { BoostrReply, BoostrRoute } from './boostr-route.ts'
import type { DisaggConfig } from './disagg-config.ts'
import { SessionAffinity } from './session-affinity.ts'

export interface BoostrRouterOptions {
  readonly config: DisaggConfig
  readonly link: BoostrLink
  readonly clock: Clock
  readonly peers: BoostrPeers
  readonly prefillMs: number
  /** Until the first token, and from one token to the next. */
  readonly tokenMs: number
  /** Requests that wait until a worker is free. */
  readonly queueMax: number
  /** How long a request may wait for that. Default 300,000. */
  readonly queueMs?: number
  /** Requests at one worker at a time. Default 64; original peers get one. */
  readonly inFlightMax?: number
  readonly affinityMax: number
  /**
   * Default 1, as the original counts. Baton peers keep work of a router's earlier process for a while, so there each
   * process starts at a number of its own.
   */
  readonly firstRequestId?: bigint
}

interface Routed {
  readonly requestId: bigint
  readonly route: BoostrRoute
  /** Null: the client has left, and the workers have not ended the request yet. */
  reply: BoostrReply | null
  readonly prefillRank: number
  readonly decodeRank: number
  stage: 'prefill' | 'decode'
  /** Tokens passed on so far. */
  tokenCount: number
  timer: Timer
}

/** A longer message would make the prefill worker close the connection. */
const PROMPT_TOKENS_MAX = ACTIVATION_BYTES_MAX / BigInt64Array.BYTES_PER_ELEMENT
const QUEUE_MS = 300_000
const IN_FLIGHT_MAX = 64

export class BoostrRouter implements BoostrNode {
  readonly #options: BoostrRouterOptions
  readonly #routed = new Map<bigint, Routed>()
  readonly #queue: BoostrQueue
  readonly #affinity: SessionAffinity
  readonly #members: BoostrMembers
  #requestIdNext: bigint
  #decodeTurn = 0
  #strayCount = 0

  constructor(options: BoostrRouterOptions) {
    this.#options = options
    this.#affinity = new SessionAffinity(options.affinityMax)
    const { peers, clock, queueMax: max, queueMs: waitMs = QUEUE_MS } = options
    this.#queue = new BoostrQueue({ clock, max, waitMs })
    this.#members = new BoostrMembers({ peers, clock, onGone: () => this.#dispatch() })
    this.#requestIdNext = options.firstRequestId ?? 1n
  }

  /** Requests in a worker's stage now; used to find the least loaded worker. */
  loadOf(rank: number): number {
    let load = 0
    for (const { stage, prefillRank, decodeRank } of this.#routed.values()) {
      if ((stage === 'prefill' ? prefillRank : decodeRank) === rank) load += 1
    }
    return load
  }

  get load(): number {
    return this.#routed.size + this.#queue.length
  }

  /** Messages that belonged to no request. */
  get strayCount(): number {
    return this.#strayCount
  }

  affinityOf(sessionKey: string): number | undefined {
    return this.#affinity.of(sessionKey)
  }

  /** Sets the decode worker of this session. */
  recordKvAffinity(sessionKey: string, rank: number): void {
    this.#affinity.record(sessionKey, rank)
  }

  evictKvAffinity(sessionKey: string): void {
    this.#affinity.evict(sessionKey)
  }

  /** Never throws. The result cancels the request: its reply is not called again. */
  routeRequest(route: BoostrRoute, reply: BoostrReply): { cancel(): void } {
    const refusal = lengthFault(route) ?? this.#enqueue(route, reply)
    if (refusal === null) this.#dispatch()
    else reply.onError(refusal)
    return { cancel: () => this.#cancel(reply) }
  }

  receive(fromRank: number, frame: BoostrFrame): void {
    const message = decodeBoostr(frame.tag, frame.payload)
    if (!('requestId' in message)) {
      throw protocolError('message.unexpected', `a router must not receive ${message.kind}`)
    }
    const routed = this.#routed.get(message.requestId)
    if (!routed || !isExpected(routed, fromRank, message.kind)) {
      this.#strayCount += 1
      return
    }
    switch (message.kind) {
      case 'prefill-done':
        this.#onPrefillDone(routed, message.kvBytes)
        break
      case 'decode-token':
        this.#onToken(routed, message.tokenId)
        break
      case 'decode-done':
        this.#succeed(routed)
        break
      case 'request-cancel':
        this.#fail(routed, stepFailed(routed.decodeRank))
        break
      default:
        throw protocolError('message.unexpected', `a router must not receive ${message.kind}`)
    }
  }

  peerGone(rank: number): void {
    this.#affinity.evictRank(rank)
    this.#members.lost(rank)
    for (const routed of this.#routed.values()) {
      if (routed.prefillRank !== rank && routed.decodeRank !== rank) continue
      if (routed.stage === 'decode' && routed.decodeRank !== rank) continue
      const text = `worker ${rank} was lost in the ${routed.stage} stage of the request`
      const data = { stage: routed.stage, rank }
      this.#fail(routed, new BatonError('backend.worker_unavailable', text, { data }))
    }
    this.#dispatch()
  }

  close(): void {
    const reason = new BatonError('backend.worker_unavailable', 'this router has stopped')
    this.#queue.clear(reason)
    for (const routed of this.#routed.values()) {
      this.#end(routed)
      routed.reply?.onError(reason)
    }
    this.#members.close()
  }

  peerBack(rank: number): void {
    this.#members.back(rank)
    this.#dispatch()
  }

  /** Null: it waits. */
  #enqueue(route: BoostrRoute, reply: BoostrReply): BatonError | null {
    if (this.#queue.push({ route, reply })) return null
    return new BatonError('capacity.exhausted', 'too many requests are waiting for a worker')
  }

  #dispatch(): void {
    for (;;) {
      const next = this.#queue.first
      if (!next) return
      const chosen = this.#choose(next.route)
      if (chosen === 'busy') return
      this.#queue.remove(next.reply)
      if (chosen instanceof BatonError) next.reply.onError(chosen)
      else this.#start(next, chosen.prefillRank, chosen.decodeRank)
    }
  }

  #choose(route: BoostrRoute): { prefillRank: number; decodeRank: number } | 'busy' | BatonError {
    const { prefillWorkers, decodeWorkers } = this.#options.config
    const prefill = prefillWorkers.filter((rank) => !this.#members.isGone(rank))
    const decode = decodeWorkers.filter((rank) => !this.#members.isGone(rank))
    if (prefill.length === 0 || decode.length === 0) {
      const stage = prefill.length === 0 ? 'prefill' : 'decode'
      const text = `no ${stage} worker is registered`
      return new BatonError('backend.worker_unavailable', text, { data: { stage } })
    }
    const freePrefill = prefill.filter((rank) => this.#isFree(rank))
    const freeDecode = decode.filter((rank) => this.#isFree(rank))
    const affine = this.#affinity.of(route.sessionKey)
    const isAffineAlive = affine !== undefined && decode.includes(affine)
    const isAffineFree = affine !== undefined && freeDecode.includes(affine)
    // Another is better than waiting in front of all others.
    const isOtherAllowed = !isAffineAlive || (!isAffineFree && this.#options.peers === 'baton')
    const candidates = isOtherAllowed ? freeDecode : freeDecode.filter((rank) => rank === affine)
    const prefillRank = this.#leastLoaded(freePrefill)
    const decodeRank = candidates[this.#decodeTurn % candidates.length]
    if (prefillRank === undefined || decodeRank === undefined) return 'busy'
    if (isOtherAllowed) this.#decodeTurn += 1
    return { prefillRank, decodeRank }
  }

  /**
   * A decode worker counts from the beginning, because it gets the KV before its stage. An original peer handles one
   * request at a time.
   */
  #isFree(rank: number): boolean {
    const { peers, inFlightMax = IN_FLIGHT_MAX } = this.#options
    if (!this.#members.isConnected(rank)) return false
    let count = 0
    for (const { prefillRank, decodeRank, stage } of this.#routed.values()) {
      if (decodeRank === rank || (prefillRank === rank && stage === 'prefill')) count += 1
    }
    return count < (peers === 'baton' ? inFlightMax : 1)
  }

  #leastLoaded(ranks: readonly number[]): number | undefined {
    let best: number | undefined
    let bestLoad = Infinity
    for (const rank of ranks) {
      const load = this.loadOf(rank)
      if (load < bestLoad) [best, bestLoad] = [rank, load]
    }
    return best
  }

  #start({ route, reply }: Queued, prefillRank: number, decodeRank: number): void {
    const { clock, link, prefillMs } = this.#options
    const requestId = this.#requestIdNext
    this.#requestIdNext = BigInt.asUintN(64, requestId + 1n)
    const routed: Routed = {
      requestId,
      route,
      reply,
      prefillRank,
      decodeRank,
      stage: 'prefill',
      tokenCount: 0,
      timer: clock.after(prefillMs, () => this.#onDeadline(requestId)),
    }
    this.#routed.set(requestId, routed)
    const seqLen = route.tokenIds.length
    // The descriptor first, because the original reads it first.
    link.send(prefillRank, encodeBoostr({ kind: 'prefill-request', requestId, seqLen, decodeRank }))
    link.send(prefillRank, encodeBoostr({ kind: 'activation', tokenIds: route.tokenIds }))
  }

  #onPrefillDone(routed: Routed, kvBytes: bigint): void {
    if (!routed.reply && this.#options.peers === 'baton') {
      this.#abandon(routed)
      return
    }
    if (kvBytes === 0n) {
      const text =
        'the prefill worker sent no KV: too large, no room for it, failed, or not acknowledged'
      const data = { stage: 'prefill', rank: routed.prefillRank }
      this.#fail(routed, new BatonError('kv.transfer_failed', text, { data }))
      return
    }
    routed.stage = 'decode'
    this.#extend(routed)
    const { requestId, route, decodeRank } = routed
    // Without tokens for a client that has left: the decode worker must still take this request's KV.
    const maxNewTokens = routed.reply ? route.maxNewTokens : 0
    const request = { kind: 'decode-request', requestId, maxNewTokens } as const
    this.#options.link.send(decodeRank, encodeBoostr(request))
    this.#dispatch()
  }

  #onToken(routed: Routed, tokenId: bigint): void {
    if (tokenId === TOKEN_END || tokenId === TOKEN_EOS) {
      this.#succeed(routed)
      return
    }
    if (routed.tokenCount >= routed.route.maxNewTokens) {
      // More tokens than requested are dropped, and they do not extend the worker's deadline.
      this.#strayCount += 1
      return
    }
    routed.tokenCount += 1
    this.#extend(routed)
    routed.reply?.onToken(tokenId)
  }

  #extend(routed: Routed): void {
    routed.timer.cancel()
    const { clock, tokenMs } = this.#options
    routed.timer = clock.after(tokenMs, () => this.#onDeadline(routed.requestId))
  }

  #onDeadline(requestId: bigint): void {
    const routed = this.#routed.get(requestId)
    if (!routed) return
    const { stage } = routed
    const rank = stage === 'prefill' ? routed.prefillRank : routed.decodeRank
    if (this.#options.peers === 'boostr') {
      this.#members.lost(rank)
      this.#options.link.reset(rank)
    }
    const text = `worker ${rank} did not answer in time in the ${stage} stage`
    this.#fail(routed, new BatonError('request.deadline_exceeded', text, { data: { stage, rank } }))
  }

  #succeed(routed: Routed): void {
    const { sessionKey } = routed.route
    if (sessionKey !== undefined && routed.reply)
      this.recordKvAffinity(sessionKey, routed.decodeRank)
    this.#end(routed)
    routed.reply?.onDone()
    this.#dispatch()
  }

  #fail(routed: Routed, error: BatonError): void {
    this.#tellCancelled(routed)
    this.#end(routed)
    routed.reply?.onError(error)
    this.#dispatch()
  }

  #end(routed: Routed): void {
    routed.timer.cancel()
    this.#routed.delete(routed.requestId)
  }

  #cancel(reply: BoostrReply): void {
    this.#queue.remove(reply)
    for (const routed of this.#routed.values()) {
      if (routed.reply !== reply) continue
      routed.reply = null
      if (this.#options.peers === 'boostr') continue
      // A prompt is computed to its end, and until PREFILL_DONE it counts as load of its worker.
      if (routed.stage === 'prefill') this.#tellCancelled(routed)
      else this.#abandon(routed)
    }
    this.#dispatch()
  }

  #abandon(routed: Routed): void {
    this.#tellCancelled(routed)
    this.#end(routed)
    this.#dispatch()
  }

  /** Whatever these workers have of the request is dropped. Original peers have no such message. */
  #tellCancelled({ requestId, stage, prefillRank, decodeRank }: Routed): void {
    const { peers, link, config } = this.#options
    if (peers === 'boostr') return
    const { routerRank } = config
    for (const rank of stage === 'prefill' ? [prefillRank, decodeRank] : [decodeRank]) {
      if (this.#members.isGone(rank)) continue
      link.send(rank, encodeBoostr({ kind: 'request-cancel', requestId, routerRank }))
    }
  }
}

/** Each stage has its own messages and its own worker (both may be the same rank). */
function isExpected(
  { stage, prefillRank, decodeRank }: Routed,
  rank: number,
  kind: BoostrMessage['kind'],
): boolean {
  if (kind === 'prefill-done') return stage === 'prefill' && rank === prefillRank
  if (kind === 'decode-token' || kind === 'decode-done' || kind === 'request-cancel') {
    return stage === 'decode' && rank === decodeRank
  }
  // Refused below, where a router reports unexpected messages.
  return true
}

function stepFailed(rank: number): BatonError {
  const data = { stage: 'decode', rank }
  return new BatonError('backend.unknown', `a step of worker ${rank} has failed`, { data })
}

function lengthFault({ tokenIds: { length } }: BoostrRoute): BatonError | null {
  if (length <= PROMPT_TOKENS_MAX) return null
  const limit = PROMPT_TOKENS_MAX
  const text = `the prompt has ${length} tokens: at most ${limit} are possible`
  return new BatonError('request.payload_too_large', text, { data: { param: 'prompt', limit } })
}
