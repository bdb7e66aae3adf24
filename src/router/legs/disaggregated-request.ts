/**
 * One request in two legs, from the choice of a prefill worker to the single end that the client sees.
 *
 *   place prefill → prefill ──(completed: result in hand)──→ place decode → decode → end
 *                      └─(bootstrap, or the prefill worker reports it: both legs at once)──↗
 *
 * Owns the order of the legs, the cancellation of one leg when the other fails first, and the retry of a prefill that
 * failed before decode began. Invariants: the sink gets exactly one end. KV that was offered is always reported to a
 * decode worker, even if the client has left, and that decode is then stopped, so that the prefill worker can free
 * the blocks.
 */
import { BatonError } from '../../base/index.ts'
import type { Random, WorkerId } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  PrefillResult,
  ReplySink,
  RequestHandle,
} from '../../request/index.ts'
import { pinsPrefill } from '../decide/pin.ts'
import { DecodeAttempt, releaseKv } from './decode-attempt.ts'
import type { DecodeOwner, DecodePools } from './decode-attempt.ts'
import { planHandOver } from './hand-over-plan.ts'
import { legQueued } from './leg-queued.ts'
import {
  bootstrapFromResult,
  placedPrefillRequest,
  prefillRequest,
  withoutWorkers,
} from './leg-requests.ts'
import type { HandOver } from './leg-requests.ts'
import type { Leg } from './leg.ts'
import type { Placement } from './placement.ts'
import { PrefillSink } from './prefill-sink.ts'
import { prefillsWithoutPartner } from './topology-pairs.ts'

export interface DisaggregatedParts extends DecodePools {
  readonly random: Random
  /** No prefill worker was available and the request may continue aggregated; counts the reason. */
  onFallback(reason: string): void
  onRetry(): void
  /** Both legs were used. */
  onDisaggregated(): void
}

export class DisaggregatedRequest implements RequestHandle, DecodeOwner {
  readonly #parts: DisaggregatedParts
  readonly #note: string
  readonly #request: GenerateRequest
  readonly #sink: ReplySink
  readonly #failedPrefills: WorkerId[] = []
  #stopWaiting: (() => void) | null = null
  #prefillLeg: Leg | null = null
  /** Set once there is, or will be, KV on offer: a decode worker must then be told in any case. */
  #decode: DecodeAttempt | null = null
  /** Set if the request runs aggregated instead of in two legs. */
  #aggregated: RequestHandle | null = null
  #cancelled: 'stop' | 'kill' | null = null
  #isDisaggregated = false
  #ended = false

  constructor(parts: DisaggregatedParts, note: string, request: GenerateRequest, sink: ReplySink) {
    this.#parts = parts
    this.#note = note
    this.#request = request
    this.#sink = sink
  }

  start(): void {
    this.#placePrefill()
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#cancelled === 'kill' || this.#cancelled === kind) return
    this.#cancelled = kind
    if (this.#aggregated !== null) {
      this.#aggregated.cancel(kind)
      return
    }
    if (this.#decode?.cancel(kind) === true) {
      this.#prefillLeg?.cancel('stop')
      return
    }
    if (this.#decode === null) {
      if (this.#prefillLeg === null) this.#stopWaiting?.()
      // Stop, even for a kill: the KV is released only by an orderly end.
      else this.#prefillLeg.cancel('stop')
    }
    if (kind === 'kill' || (this.#prefillLeg === null && this.#decode === null)) {
      this.#endCancelled()
    }
  }

  // Prefill

  #placePrefill(): void {
    this.#emitPhase(legQueued(this.#request, 'prefill', this.#parts.clock.nowMs()))
    const unpaired = prefillsWithoutPartner(this.#parts, this.#request)
    const excluded = [...this.#failedPrefills, ...unpaired]
    const wanted = prefillRequest(withoutWorkers(this.#request, excluded))
    this.#stopWaiting = this.#parts.prefill.acquire(
      wanted,
      'prefill',
      {
        onPlaced: (placement) => this.#prefillPlaced(wanted, placement),
        onRefused: (error) => this.#prefillRefused(error),
      },
      { note: this.#note, next: this.#parts.decode.restricted(this.#request, 'decode') },
    )
  }

  #prefillPlaced(wanted: GenerateRequest, placement: Placement): void {
    this.#stopWaiting = null
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
    const decode = bootstrap === null ? null : this.#decodeOf(handOver)
    const sink = decode === null ? this.#firstSink(handOver, placement) : this.#besideSink(handOver)
    const leg = placement.dispatch(request, sink)
    if (!sink.isDone) this.#prefillLeg = leg
    if (decode === null || this.#ended) return
    placement.followed()
    this.#place(decode)
  }

  /**
   * The sink of a prefill leg after which decode follows, at its end or when the prefill worker reports the meeting
   * point.
   */
  #firstSink(handOver: HandOver, placement: Placement): PrefillSink {
    const { workerId } = placement.selection
    return new PrefillSink({
      onPhase: (event) => this.#emitPhase(event),
      onMeeting: (result) => {
        // The prefill continues; from here on the first failure ends both legs.
        if (this.#cancelled !== null || this.#ended) return
        placement.followed()
        this.#place(this.#decodeOf({ ...handOver, prefillResult: result }))
      },
      onDone: (chunk, result) => {
        this.#prefillLeg = null
        if (this.#decode === null) this.#prefillDone(chunk, result, handOver)
        else this.#prefillMet(this.#decode, chunk)
      },
      onError: (error) => {
        this.#prefillLeg = null
        const decode = this.#decode
        if (decode === null) this.#prefillFailed(error, workerId)
        else if (!decode.fetchesAhead) this.#endWith(error)
        else if (!decode.doesAnswer) {
          this.#dropDecode(decode)
          this.#prefillFailed(error, workerId)
        }
      },
    })
  }

  /** The sink of a prefill leg that runs in parallel with decode from the beginning. */
  #besideSink(handOver: HandOver): PrefillSink {
    return new PrefillSink({
      onPhase: (event) => this.#emitPhase(event),
      onDone: (_chunk, result) => {
        this.#prefillLeg = null
        // Decode meets prefill by bootstrap and does not need the offer.
        if (result !== null) this.#releaseKv({ ...handOver, prefillResult: result })
      },
      onError: (error) => {
        this.#prefillLeg = null
        this.#endWith(error)
      },
    })
  }

  /** The prefill ended while decode waits for it: without KV on offer, decode cannot continue. */
  #prefillMet(decode: DecodeAttempt, { finish, prefillResult }: Chunk): void {
    const { kvOffer, engineParams } = prefillResult ?? {}
    if (finish === 'cancelled' || kvOffer !== undefined || engineParams !== undefined) return
    if (!decode.fetchesAhead) this.#endWith(withoutHandOver())
    else if (!decode.doesAnswer) {
      this.#dropDecode(decode)
      this.#fallBack('prefill returned no KV to transfer', withoutHandOver())
    }
  }

  /**
   * With Baton's own hand-over, decode lacks the last blocks and has sent nothing to the client: another prefill may
   * be tried.
   */
  #dropDecode(decode: DecodeAttempt): void {
    this.#decode = null
    decode.giveUp()
  }

  #prefillRefused(error: BatonError): void {
    this.#stopWaiting = null
    const last = this.#failedPrefills.at(-1)
    const isGone = error.code === 'backend.worker_unavailable'
    if (!isGone || pinsPrefill(this.#request.routing)) this.#fail(error)
    else {
      this.#fallBack(
        last === undefined ? 'no eligible prefill worker' : 'prefill failed on every worker',
        error,
      )
    }
  }

  #prefillFailed(error: BatonError, workerId: WorkerId): void {
    if (this.#cancelled !== null) {
      this.#endCancelled()
      return
    }
    // Decode has failed before it: nobody waits for another attempt.
    if (this.#ended) return
    const isPinned = pinsPrefill(this.#request.routing)
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
      this.#fallBack('prefill returned no KV to transfer', withoutHandOver())
      return
    }
    const bootstrap = bootstrapFromResult(result)
    const told =
      bootstrap === null ? { prefillResult: result } : { prefillResult: result, bootstrap }
    this.#place(this.#decodeOf(Object.assign({}, handOver, told)))
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

  /** The prefill's single token was the end (EOS or a stop token): it is the whole answer. */
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
    if (this.#ended) return
    if (this.#parts.config.enforceDisaggregation) {
      this.#fail(error)
      return
    }
    this.#parts.onFallback(reason)
    this.#aggregated = this.#parts.decode.serve(
      this.#request,
      'aggregated',
      this.#sink,
      `aggregated: ${reason}`,
    )
  }

  // Decode

  isEnded(): boolean {
    return this.#ended
  }

  isCancelled(): boolean {
    return this.#cancelled !== null
  }

  isPrefillRunning(): boolean {
    return this.#prefillLeg !== null
  }

  decodeEnded(): void {
    this.#ended = true
    // Decode has the whole prompt, so a prefill worker that hangs must not keep its leg until the deadline.
    this.#prefillLeg?.endSoon()
  }

  decodeFailed(error: BatonError): void {
    this.#endWith(error)
  }

  decodeToldLate(): void {
    this.#prefillLeg?.cancel('stop')
  }

  #decodeOf(handOver: HandOver): DecodeAttempt {
    const attempt = new DecodeAttempt(
      this.#parts,
      this.#note,
      this,
      handOver,
      this.#request,
      this.#sink,
    )
    this.#decode = attempt
    return attempt
  }

  #place(decode: DecodeAttempt): void {
    // Counted once: a second attempt follows when the first prefill worker was lost.
    if (!this.#isDisaggregated) this.#parts.onDisaggregated()
    this.#isDisaggregated = true
    this.#emitPhase({ kind: 'decodeQueued', phase: 'decode', atMs: this.#parts.clock.nowMs() })
    decode.place()
  }

  #releaseKv(handOver: HandOver): void {
    releaseKv(this.#parts.prefill, handOver)
  }

  /** The client's sink is not called after its end. */
  #emitPhase(event: PhaseEvent): void {
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
    this.#fail(error)
    this.#decode?.giveUp()
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
  return new BatonError('kv.transfer_failed', 'the prefill worker ended without KV to transfer', {
    data: { stage: 'prefill' },
  })
}
