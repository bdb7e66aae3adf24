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
import { DecodeAttempt, releaseKv } from './decode-attempt.ts'
import type { DecodePools } from './decode-attempt.ts'
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
  /** There is a hand-over, or will be: decode has to be told whatever happens. */
  #decode: DecodeAttempt | null = null
  /** Instead of both legs. */
  #aggregated: RequestHandle | null = null
  #cancelled: 'stop' | 'kill' | null = null
  #isDisaggregated = false
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
      // Orderly even for a kill: only an orderly end gives the KV back.
      else this.#prefillLeg.cancel('stop')
    }
    if (kind === 'kill' || (this.#prefillLeg === null && this.#decode === null)) {
      this.#endCancelled()
    }
  }

  // Prefill

  #placePrefill(): void {
    this.#tell(legQueued(this.#request, 'prefill', this.#parts.clock.nowMs()))
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
    const decode = bootstrap === null ? null : this.#decodeOf(handOver)
    const sink =
      decode === null ? this.#firstSink(handOver, selection.workerId) : this.#besideSink(handOver)
    const leg = placement.dispatch(request, sink)
    if (!sink.isDone) this.#prefillLeg = leg
    if (decode !== null && !this.#ended) this.#place(decode)
  }

  /** Of a prefill that decode follows when it has ended, or when it says so. */
  #firstSink(handOver: HandOver, workerId: WorkerId): PrefillSink {
    return new PrefillSink({
      onPhase: (event) => this.#tell(event),
      onMeeting: (result) => {
        // Prefill goes on; from here the first failure ends both legs.
        if (this.#cancelled === null && !this.#ended) {
          this.#place(this.#decodeOf({ ...handOver, prefillResult: result }))
        }
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

  /** Of a prefill beside which decode runs from the beginning. */
  #besideSink(handOver: HandOver): PrefillSink {
    return new PrefillSink({
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
  }

  /** Decode waits for what prefill has not handed over. */
  #prefillMet(decode: DecodeAttempt, { finish, prefillResult }: Chunk): void {
    const { kvOffer, engineParams } = prefillResult ?? {}
    if (finish === 'cancelled' || kvOffer !== undefined || engineParams !== undefined) return
    if (!decode.fetchesAhead) this.#endWith(withoutHandOver())
    else if (!decode.doesAnswer) {
      this.#dropDecode(decode)
      this.#fallBack('prefill gave no hand-over', withoutHandOver())
    }
  }

  /** Baton's own hand-over, of which decode lacks the last blocks: it has told the client nothing, so that another prefill may be tried. */
  #dropDecode(decode: DecodeAttempt): void {
    this.#decode = null
    decode.giveUp()
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
    this.#aggregated = this.#parts.decode.serve(
      this.#request,
      'aggregated',
      this.#sink,
      `aggregated: ${reason}`,
    )
  }

  // Decode

  #decodeOf(handOver: HandOver): DecodeAttempt {
    const attempt = new DecodeAttempt(
      this.#parts,
      {
        isEnded: () => this.#ended,
        isCancelled: () => this.#cancelled !== null,
        isPrefillRunning: () => this.#prefillLeg !== null,
        decodeEnded: () => {
          this.#ended = true
        },
        decodeFailed: (error) => this.#endWith(error),
        decodeToldLate: () => this.#prefillLeg?.cancel('stop'),
      },
      handOver,
      this.#request,
      this.#sink,
    )
    this.#decode = attempt
    return attempt
  }

  #place(decode: DecodeAttempt): void {
    // A second attempt follows a prefill that was lost.
    if (!this.#isDisaggregated) this.#parts.onDisaggregated()
    this.#isDisaggregated = true
    this.#tell({ kind: 'decodeQueued', phase: 'decode', atMs: this.#parts.clock.nowMs() })
    decode.place()
  }

  #releaseKv(handOver: HandOver): void {
    releaseKv(this.#parts.prefill, handOver)
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
  return new BatonError('kv.transfer_failed', 'the prefill worker ended without a hand-over', {
    data: { stage: 'prefill' },
  })
}
