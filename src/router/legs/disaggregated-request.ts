/**
 * One request over two legs, from the choice of a prefill worker to the single end that the client sees.
 *
 *   place prefill → prefill ──(completed: result in hand)──→ place decode → decode → end
 *                     └─(bootstrap, or prefill says so: both legs at once)──↗
 *
 * Owns: which leg runs, the first failure ending the other leg, the retry of a prefill that failed before decode began.
 * Invariants: the sink gets exactly one end; a hand-over that exists is told to a decode worker even when the client has
 * left, and that decode is then stopped, so that no block waits for nobody.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Random, WorkerId } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  PrefillResult,
  ReplySink,
  RequestHandle,
} from '../../request/index.ts'
import { DecodeSink } from './decode-sink.ts'
import { planHandOver } from './hand-over-plan.ts'
import {
  bootstrapFromResult,
  decodeRequest,
  placedPrefillRequest,
  prefillRequest,
  withoutWorkers,
} from './leg-requests.ts'
import type { HandOver } from './leg-requests.ts'
import type { Leg } from './leg.ts'
import type { Placement } from './placement.ts'
import { PrefillSink } from './prefill-sink.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { prefillsWithoutPartner } from './topology-pairs.ts'
import type { WorkerRouter } from './worker-router.ts'

export interface DisaggregatedParts {
  readonly prefill: WorkerRouter
  readonly decode: WorkerRouter
  readonly clock: Clock
  readonly random: Random
  readonly config: RouterConfig
  readonly note: string
  /** The prefill leg could not be had; the request may go on aggregated. Counts the reason. */
  onFallback(reason: string): void
  onRetry(): void
  /** Both legs were taken. */
  onDisaggregated(): void
}

export class DisaggregatedRequest implements RequestHandle {
  readonly #parts: DisaggregatedParts
  readonly #request: GenerateRequest
  readonly #sink: ReplySink
  readonly #failedPrefills: WorkerId[] = []
  #stopWaiting: (() => void) | null = null
  #prefillLeg: Leg | null = null
  #decode: RequestHandle | null = null
  #cancelled: 'stop' | 'kill' | null = null
  /** KV is handed over or will be: decode has to be told whatever happens. */
  #isHandedOver = false
  /** Both legs run at once, as prefill has said. */
  #isMeeting = false
  /** The decode leg waits for KV of this prefill. */
  #waitsForOffer = false
  /** The decode leg answers: it had all of the prompt, whatever becomes of the prefill. */
  #doesAnswer = false
  /** Decode legs that were given up with their prefill are not listened to. */
  #decodeAttempt = 0
  #ended = false

  constructor(parts: DisaggregatedParts, request: GenerateRequest, sink: ReplySink) {
    this.#parts = parts
    this.#request = request
    this.#sink = sink
  }

  start(): void {
    this.#placePrefill()
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#cancelled === 'kill' || this.#cancelled === kind) return
    this.#cancelled = kind
    if (this.#decode !== null) {
      this.#decode.cancel(kind)
      this.#prefillLeg?.cancel('stop')
      return
    }
    // A hand-over under way goes on until a decode worker was told; see #placeDecode.
    if (!this.#isHandedOver) {
      if (this.#prefillLeg === null) this.#stopWaiting?.()
      // Orderly even for a kill: only an orderly end gives the KV back.
      else this.#prefillLeg.cancel('stop')
    }
    if (kind === 'kill' || (this.#prefillLeg === null && !this.#isHandedOver)) this.#endCancelled()
  }

  // Prefill

  #placePrefill(): void {
    this.#tell({ kind: 'prefillQueued', phase: 'prefill', atMs: this.#parts.clock.nowMs() })
    const useless = prefillsWithoutPartner(this.#parts, this.#request)
    const excluded = [...this.#failedPrefills, ...useless]
    const wanted = prefillRequest(withoutWorkers(this.#request, excluded))
    this.#stopWaiting = this.#parts.prefill.acquire(
      wanted,
      'prefill',
      {
        onPlaced: (placement) => this.#prefillPlaced(wanted, placement),
        onRefused: (error) => this.#prefillRefused(error),
      },
      this.#parts.note,
    )
  }

  #prefillPlaced(wanted: GenerateRequest, placement: Placement): void {
    const { selection } = placement
    let handOver: HandOver
    try {
      handOver = planHandOver(this.#parts, this.#request, selection)
    } catch (thrown) {
      placement.release()
      this.#fail(BatonError.from(thrown))
      return
    }
    const bootstrap = handOver.bootstrap ?? null
    const request = placedPrefillRequest(wanted, selection, bootstrap)
    if (bootstrap === null) {
      const sink = new PrefillSink({
        onPhase: (event) => this.#tell(event),
        onMeeting: (result) => this.#prefillMeets(result, handOver),
        onDone: (chunk, result) => {
          if (this.#isMeeting) this.#prefillMet(chunk)
          else this.#prefillDone(chunk, result, handOver)
        },
        onError: (error) => {
          if (this.#waitsForOffer && !this.#doesAnswer) this.#dropDecode()
          if (this.#isMeeting) {
            this.#prefillLeg = null
            if (!this.#waitsForOffer) this.#endWith(error)
          } else this.#prefillFailed(error, selection.workerId)
        },
      })
      const leg = placement.dispatch(request, sink)
      if (!sink.isDone) this.#prefillLeg = leg
      return
    }
    this.#isHandedOver = true
    const sink = new PrefillSink({
      onPhase: (event) => this.#tell(event),
      onDone: (_chunk, result) => {
        this.#prefillLeg = null
        // Decode meets prefill elsewhere.
        if (result !== null) this.#releaseKv({ ...handOver, prefillResult: result })
      },
      onError: (error) => {
        this.#prefillLeg = null
        this.#endWith(error)
      },
    })
    const leg = placement.dispatch(request, sink)
    if (!sink.isDone) this.#prefillLeg = leg
    if (!this.#ended) this.#placeDecode(handOver)
  }

  /** Prefill goes on; from here the first failure ends both legs. */
  #prefillMeets(result: PrefillResult, handOver: HandOver): void {
    if (this.#cancelled !== null || this.#ended) return
    this.#isMeeting = true
    this.#isHandedOver = true
    this.#waitsForOffer = result.kvOffer !== undefined
    this.#placeDecode({ ...handOver, prefillResult: result })
  }

  /** Baton's own hand-over, of which decode lacks the last blocks: it has told the client nothing, so that another prefill may be tried. */
  #dropDecode(): void {
    const decode = this.#decode
    this.#decodeAttempt++
    this.#decode = null
    this.#isMeeting = false
    this.#isHandedOver = false
    this.#waitsForOffer = false
    if (decode === null) this.#stopWaiting?.()
    else decode.cancel('kill')
  }

  /** Decode waits for what prefill has not handed over. */
  #prefillMet({ finish, prefillResult }: Chunk): void {
    this.#prefillLeg = null
    const { kvOffer, engineParams } = prefillResult ?? {}
    const isHandedOver = kvOffer !== undefined || engineParams !== undefined
    const doesWait = this.#waitsForOffer
    this.#waitsForOffer = false
    if (finish === 'cancelled' || isHandedOver || (doesWait && this.#doesAnswer)) return
    if (!doesWait) return this.#endWith(withoutHandOver())
    this.#dropDecode()
    this.#fallBack('prefill gave no hand-over', withoutHandOver())
  }

  #prefillRefused(error: BatonError): void {
    const last = this.#failedPrefills.at(-1)
    const isGone = error.code === 'backend.worker_unavailable'
    if (!isGone || this.#request.routing.prefillWorkerId !== undefined) this.#fail(error)
    else {
      this.#fallBack(
        last === undefined ? 'no eligible prefill worker' : 'prefill failed on every worker',
        error,
      )
    }
  }

  #prefillFailed(error: BatonError, workerId: WorkerId): void {
    this.#prefillLeg = null
    if (this.#cancelled !== null) {
      this.#endCancelled()
      return
    }
    const isPinned = this.#request.routing.prefillWorkerId !== undefined
    if (!error.row.migratable || isPinned) {
      this.#fail(error)
      return
    }
    this.#failedPrefills.push(workerId)
    if (this.#failedPrefills.length > this.#parts.config.prefillRetries) {
      this.#fallBack('prefill failed', error)
      return
    }
    this.#parts.onRetry()
    this.#placePrefill()
  }

  #prefillDone(chunk: Chunk, result: PrefillResult | null, handOver: HandOver): void {
    this.#prefillLeg = null
    if (chunk.finish === 'cancelled') {
      this.#prefillCancelled()
      return
    }
    if (chunk.finish !== 'length') {
      if (result !== null) this.#releaseKv({ ...handOver, prefillResult: result })
      this.#endWithPrefill(chunk)
      return
    }
    if (result === null) {
      this.#fallBack('prefill gave no hand-over', withoutHandOver())
      return
    }
    this.#isHandedOver = true
    const bootstrap = bootstrapFromResult(result)
    const told =
      bootstrap === null ? { prefillResult: result } : { prefillResult: result, bootstrap }
    this.#placeDecode(Object.assign({}, handOver, told))
  }

  #prefillCancelled(): void {
    if (this.#cancelled !== null) this.#endCancelled()
    else {
      this.#fail(
        new BatonError('backend.cancelled', 'the prefill worker cancelled the request', {
          data: { stage: 'prefill' },
        }),
      )
    }
  }

  /** The prefill's one token was the end (eos, a stop token): it is the answer. */
  #endWithPrefill(chunk: Chunk): void {
    const { prefillResult: _handOver, ...answer } = chunk
    if (this.#ended) return
    this.#ended = true
    this.#sink.onChunk(answer)
  }

  #fallBack(reason: string, error: BatonError): void {
    if (this.#cancelled !== null) {
      this.#endCancelled()
      return
    }
    if (this.#parts.config.enforceDisaggregation) {
      this.#fail(error)
      return
    }
    this.#parts.onFallback(reason)
    this.#decode = this.#parts.decode.serve(
      this.#request,
      'aggregated',
      this.#sink,
      `aggregated: ${reason}`,
    )
  }

  // Decode

  #placeDecode(handOver: HandOver): void {
    const { config, decode } = this.#parts
    // A second time after a prefill that was lost.
    if (this.#decodeAttempt === 0) this.#parts.onDisaggregated()
    this.#tell({ kind: 'decodeQueued', phase: 'decode', atMs: this.#parts.clock.nowMs() })
    const request = decodeRequest(this.#request, handOver, config.conditional.enabled)
    this.#stopWaiting = decode.acquire(
      request,
      'decode',
      {
        onPlaced: (placement) => {
          if (this.#ended && this.#cancelled === null) {
            placement.release()
            return
          }
          this.#watchTransfer(placement, handOver.routing.prefillWorkerId)
          const leg = placement.dispatch(request, this.#decodeSink(), () =>
            this.#releaseKv(handOver),
          )
          this.#decode = leg
          if (this.#cancelled === null) return
          leg.cancel('stop')
          this.#prefillLeg?.cancel('stop')
        },
        onRefused: (error) => {
          this.#releaseKv(handOver)
          this.#endWith(error)
        },
      },
      this.#parts.note,
    )
  }

  /** Only where prefill has ended: else decode waits for more than the transfer. */
  #watchTransfer(placement: Placement, from: WorkerId | undefined): void {
    const { config, decode, clock } = this.#parts
    if (config.cost !== 'time' || this.#prefillLeg !== null || from === undefined) return
    const { effectivePrefillTokens, workerId } = placement.selection
    const pair = { from, to: workerId }
    placement.watchArrival((elapsedMs) =>
      decode.router.transfers.arrived(pair, effectivePrefillTokens, elapsedMs, clock.nowMs()),
    )
  }

  /** No decode worker will fetch the KV: the prefill worker need not hold it any longer. */
  #releaseKv({ routing, prefillResult }: HandOver): void {
    const { prefillWorkerId } = routing
    const offer = prefillResult?.kvOffer
    if (offer === undefined || prefillWorkerId === undefined) return
    this.#parts.prefill.releaseKv(prefillWorkerId, offer.offerId)
  }

  /** The client's own sink; only a failure has to be seen, to end a prefill that still runs. */
  #decodeSink(): ReplySink {
    if (this.#prefillLeg === null && this.#cancelled === null) return this.#sink
    const attempt = this.#decodeAttempt
    const isGivenUp = (): boolean => attempt !== this.#decodeAttempt
    return new DecodeSink(this.#sink, {
      isEnded: () => this.#ended || isGivenUp(),
      onOutput: () => {
        this.#doesAnswer = true
      },
      onEnd: () => {
        this.#ended = true
      },
      onError: (error) => {
        if (!isGivenUp()) this.#endWith(error)
      },
    })
  }

  /** After its end the client's sink is not called. */
  #tell(event: PhaseEvent): void {
    if (!this.#ended) this.#sink.onPhase?.(event)
  }

  // Ends

  /** The first failure ends both legs. */
  #endWith(error: BatonError): void {
    this.#prefillLeg?.cancel('stop')
    this.#prefillLeg = null
    if (this.#cancelled !== null) {
      this.#endCancelled()
      return
    }
    const decode = this.#decode
    this.#fail(error)
    decode?.cancel('kill')
    if (decode === null) this.#stopWaiting?.()
  }

  #fail(error: BatonError): void {
    if (this.#ended) return
    this.#ended = true
    this.#sink.onError(error)
  }

  #endCancelled(): void {
    if (this.#ended) return
    this.#ended = true
    this.#sink.onChunk(finishChunk('cancelled'))
  }
}

function withoutHandOver(): BatonError {
  return new BatonError('kv.transfer_failed', 'the prefill worker ended without a hand-over', {
    data: { stage: 'prefill' },
  })
}
