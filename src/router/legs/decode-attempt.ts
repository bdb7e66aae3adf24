/**
 * One attempt at the decode leg after a prefill: waits for a decode worker, sends the request, and ends with its leg
 * or when the attempt is abandoned.
 *
 * While the prefill still runs, or after the client has left, the attempt itself is the leg's sink: the client's sink
 * must not be called after its end, and a failure concerns the whole request. Otherwise the leg writes to the client
 * directly. Invariant: KV that is on offer and will not be fetched by a decode worker is released on the prefill
 * worker.
 */
import type { BatonError, Clock, WorkerId } from '../../base/index.ts'
import type { Chunk, GenerateRequest, PhaseEvent, ReplySink } from '../../request/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { decodeRequest } from './leg-requests.ts'
import type { HandOver } from './leg-requests.ts'
import type { Leg } from './leg.ts'
import type { Placement, PlacementWaiter } from './placement.ts'
import type { WorkerRouter } from './worker-router.ts'

export interface DecodePools {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly clock: Clock
  readonly config: RouterConfig
}

/** The request to which the attempt belongs. */
export interface DecodeOwner {
  isEnded(): boolean
  /** The client has disconnected. */
  isCancelled(): boolean
  isPrefillRunning(): boolean
  /** The client's sink has received the end. */
  decodeEnded(): void
  /** No decode worker was available, or the leg failed. */
  decodeFailed(error: BatonError): void
  /**
   * The client left while the attempt was queued: a decode worker has now received the hand-over and is being
   * stopped.
   */
  decodeToldLate(): void
}

export class DecodeAttempt implements ReplySink, PlacementWaiter {
  readonly #pools: DecodePools
  /** Why the request has two legs. */
  readonly #note: string
  readonly #owner: DecodeOwner
  readonly #handOver: HandOver
  readonly #request: GenerateRequest
  readonly #client: ReplySink
  #stopWaiting: (() => void) | null = null
  #leg: Leg | null = null
  #isGivenUp = false
  #doesAnswer = false

  constructor(
    pools: DecodePools,
    note: string,
    owner: DecodeOwner,
    handOver: HandOver,
    request: GenerateRequest,
    client: ReplySink,
  ) {
    this.#pools = pools
    this.#note = note
    this.#owner = owner
    this.#handOver = handOver
    this.#request = decodeRequest(request, handOver, pools.config.conditional.enabled)
    this.#client = client
  }

  /**
   * True if decode started with what a running prefill has offered: the last blocks are missing until the prefill
   * ends.
   */
  get fetchesAhead(): boolean {
    return this.#handOver.prefillResult?.kvOffer !== undefined
  }

  /** True once decode has produced output: it then has the whole prompt, whatever happens to the prefill. */
  get doesAnswer(): boolean {
    return this.#doesAnswer
  }

  place(): void {
    this.#stopWaiting = this.#pools.decode.acquire(this.#request, 'decode', this, {
      note: this.#note,
    })
  }

  /**
   * Returns false while no worker has the request: the attempt then continues until a worker has it, and stops it
   * there, so that the KV on offer is released.
   */
  cancel(kind: 'stop' | 'kill'): boolean {
    this.#leg?.cancel(kind)
    return this.#leg !== null
  }

  /** Ends the attempt without notifying client or owner. */
  giveUp(): void {
    this.#isGivenUp = true
    if (this.#leg === null) this.#stopWaiting?.()
    else this.#leg.cancel('kill')
  }

  onToken(tokenId: number): void {
    if (this.#isClosed) return
    this.#doesAnswer = true
    this.#client.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    if (this.#isClosed) return
    this.#doesAnswer = true
    if (chunk.finish !== undefined) this.#owner.decodeEnded()
    this.#client.onChunk(chunk)
  }

  onError(error: BatonError): void {
    if (!this.#isGivenUp) this.#owner.decodeFailed(error)
  }

  onPhase(event: PhaseEvent): void {
    if (!this.#isClosed) this.#client.onPhase?.(event)
  }

  get #isClosed(): boolean {
    return this.#isGivenUp || this.#owner.isEnded()
  }

  onRefused(error: BatonError): void {
    this.#stopWaiting = null
    this.#releaseKv()
    this.#owner.decodeFailed(error)
  }

  onPlaced(placement: Placement): void {
    this.#stopWaiting = null
    if (this.#isGivenUp) {
      placement.release()
      return
    }
    const isBeside = this.#owner.isPrefillRunning()
    if (!isBeside) this.#watchTransfer(placement)
    const sink = isBeside || this.#owner.isCancelled() ? this : this.#client
    const leg = placement.dispatch(this.#request, sink, () => this.#releaseKv())
    this.#leg = leg
    if (!this.#owner.isCancelled()) return
    leg.cancel('stop')
    this.#owner.decodeToldLate()
  }

  /** Measures the KV transfer, but only if the prefill has ended: otherwise decode waits for more than the transfer. */
  #watchTransfer(placement: Placement): void {
    const { config, decode, clock } = this.#pools
    const from = this.#prefillWorkerId
    if (config.cost !== 'time' || from === undefined) return
    const { effectivePrefillTokens: tokens, workerId } = placement.selection
    const pair = { from, to: workerId }
    placement.watchArrival((elapsedMs, spreadMs) =>
      decode.router.transfers.arrived(pair, { tokens, elapsedMs, spreadMs }, clock.nowMs()),
    )
  }

  #releaseKv(): void {
    releaseKv(this.#pools.prefill, this.#handOver)
  }

  get #prefillWorkerId(): WorkerId | undefined {
    return this.#handOver.routing.prefillWorkerId
  }
}

/** Tells the prefill worker that its KV will not be fetched, so that it need not keep it. */
export function releaseKv(prefill: WorkerRouter, { routing, prefillResult }: HandOver): void {
  const { prefillWorkerId } = routing
  const offer = prefillResult?.kvOffer
  if (offer === undefined || prefillWorkerId === undefined) return
  prefill.releaseKv(prefillWorkerId, offer.offerId)
}
