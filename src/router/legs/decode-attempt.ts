/**
 * One attempt to have decoded what one prefill hands over: waits for a decode worker, sends the request there, and is ended by its
 * leg or given up with its prefill.
 *
 * Is the leg's sink while a prefill still runs or the client has left: the client's sink is not called after its end, and a failure
 * is the request's, not only this leg's. Otherwise the leg writes to the client directly.
 * Invariant: KV on offer that no decode worker will fetch is given back to the prefill worker.
 */
import type { BatonError, Clock, WorkerId } from '../../base/index.ts'
import type { Chunk, GenerateRequest, PhaseEvent, ReplySink } from '../../request/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { decodeRequest } from './leg-requests.ts'
import type { HandOver } from './leg-requests.ts'
import type { Leg } from './leg.ts'
import type { Placement } from './placement.ts'
import type { WorkerRouter } from './worker-router.ts'

export interface DecodePools {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly clock: Clock
  readonly config: RouterConfig
  readonly note: string
}

/** The request that the attempt belongs to. */
export interface DecodeOwner {
  isEnded(): boolean
  /** The client has left. */
  isCancelled(): boolean
  isPrefillRunning(): boolean
  /** The client has been told the end. */
  decodeEnded(): void
  /** No decode worker was to be had, or the leg failed. */
  decodeFailed(error: BatonError): void
  /** The client left while the attempt waited: a decode worker knows of the KV now and is stopped. */
  decodeToldLate(): void
}

export class DecodeAttempt implements ReplySink {
  readonly #pools: DecodePools
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
    owner: DecodeOwner,
    handOver: HandOver,
    request: GenerateRequest,
    client: ReplySink,
  ) {
    this.#pools = pools
    this.#owner = owner
    this.#handOver = handOver
    this.#request = decodeRequest(request, handOver, pools.config.conditional.enabled)
    this.#client = client
  }

  /** Decode began with what a prefill that still ran had offered: it lacks the last blocks until that prefill has ended. */
  get fetchesAhead(): boolean {
    return this.#handOver.prefillResult?.kvOffer !== undefined
  }

  /** It answers: it had all of the prompt, whatever becomes of the prefill. */
  get doesAnswer(): boolean {
    return this.#doesAnswer
  }

  place(): void {
    const { decode, note } = this.#pools
    this.#stopWaiting = decode.acquire(
      this.#request,
      'decode',
      {
        onPlaced: (placement) => this.#placed(placement),
        onRefused: (error) => {
          this.#releaseKv()
          this.#owner.decodeFailed(error)
        },
      },
      note,
    )
  }

  /** False while no worker was told: the attempt goes on until one is, and stops it then, so that no block waits for nobody. */
  cancel(kind: 'stop' | 'kill'): boolean {
    this.#leg?.cancel(kind)
    return this.#leg !== null
  }

  /** Ends it without another word to client or owner. */
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

  #placed(placement: Placement): void {
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

  /** Only where prefill has ended: else decode waits for more than the transfer. */
  #watchTransfer(placement: Placement): void {
    const { config, decode, clock } = this.#pools
    const from = this.#prefillWorkerId
    if (config.cost !== 'time' || from === undefined) return
    const { effectivePrefillTokens, workerId } = placement.selection
    const pair = { from, to: workerId }
    placement.watchArrival((elapsedMs) =>
      decode.router.transfers.arrived(pair, effectivePrefillTokens, elapsedMs, clock.nowMs()),
    )
  }

  #releaseKv(): void {
    releaseKv(this.#pools.prefill, this.#handOver)
  }

  get #prefillWorkerId(): WorkerId | undefined {
    return this.#handOver.routing.prefillWorkerId
  }
}

/** No decode worker will fetch the KV: the prefill worker need not hold it any longer. */
export function releaseKv(prefill: WorkerRouter, { routing, prefillResult }: HandOver): void {
  const { prefillWorkerId } = routing
  const offer = prefillResult?.kvOffer
  if (offer === undefined || prefillWorkerId === undefined) return
  prefill.releaseKv(prefillWorkerId, offer.offerId)
}
