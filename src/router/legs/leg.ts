/**
 * One leg of a request on one worker: from dispatch to its single end.
 *
 * Owns the life of the booking (prefill done at the first token, output counted, freed exactly once before the end is
 * reported) and the deadlines of the leg. Per token it only counts and forwards: no promise, no allocation; the
 * booking is updated once per block of output.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, ErrorCode, Timer } from '../../base/index.ts'
import { finishChunk, isLegStart } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  LegStart,
  Phase,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../../request/index.ts'
import type { Booking } from '../load/active-sequences.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import type { StageDeadlines } from '../configuration/router-config.ts'
import type { Selection } from '../decide/selection.ts'

/** After one of these errors the worker is fenced for a while: it did not respond, or is shutting down. */
const FENCING: ReadonlySet<ErrorCode> = new Set([
  'transport.cannot_connect',
  'transport.unauthenticated',
  'transport.tls_failed',
  'transport.disconnected',
  'transport.connection_timeout',
  'backend.engine_shutdown',
  'backend.worker_draining',
  'backend.response_timeout',
])
const FENCE_MS = 2000

/**
 * The part of a selection that a leg needs. The rest, including the prompt's hashes, is not kept for the life of a
 * stream.
 */
type Selected = Pick<
  Selection,
  'workerId' | 'phase' | 'card' | 'promptTokens' | 'overlapBlocks' | 'isEstimated'
>

export interface LegParts extends Selected {
  readonly router: KvRouter
  readonly plane: RequestPlane
  readonly clock: Clock
  readonly booking: Booking
  /** Called at the end, after the booking is freed and before the sink is notified. */
  readonly onEnd?: ((error: BatonError | null) => void) | undefined
}

export class Leg implements ReplySink, RequestHandle {
  // Fields that every token reads come first, for cache locality.
  readonly #sink: ReplySink
  #ended = false
  #started = false
  #tokens = 0
  /** Token count at which the booking is updated next, and token count of the last update. */
  #bookAt = 1
  #tokensBooked = 0
  #tokensSeen = 0
  /** Output tokens by the engine's own count. */
  #usageTokens: number | null = null
  readonly #parts: LegParts
  #handle: RequestHandle | null = null
  #cancelled: 'stop' | 'kill' | null = null
  #timer: Timer | null = null
  #dispatchedMs = 0
  #start: LegStart | null = null

  constructor(parts: LegParts, sink: ReplySink) {
    this.#parts = parts
    this.#sink = sink
  }

  start(request: GenerateRequest): void {
    const { plane, phase, workerId, router } = this.#parts
    const isPrefill = phase === 'prefill'
    this.#arm(
      startDeadlineMs(router.config.deadlines, phase),
      isPrefill ? 'prefill' : 'first token',
    )
    this.#dispatchedMs = this.#parts.clock.nowMs()
    this.#handle = plane.send(workerId, request, this)
    if (this.#cancelled !== null && !this.#ended) this.#handle.cancel(this.#cancelled)
  }

  onToken(tokenId: number): void {
    if (this.#ended) return
    if (!this.#started) this.#firstItem()
    this.#tokens++
    if (this.#tokens >= this.#bookAt) this.#bookOutput()
    this.#sink.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    if (this.#ended) return
    if (chunk.started !== undefined) return this.#takeStart(chunk.started, chunk)
    // With text-only chunks the token count is known only at the end; until then each piece counts as one
    // token.
    const count = (chunk.text ?? '') === '' ? chunk.tokenIds.length : 1
    if (count > 0) {
      if (!this.#started) this.#firstItem()
      this.#tokens += count
      if (this.#tokens >= this.#bookAt) this.#bookOutput()
    }
    if (chunk.finish === 'cancelled' && this.#cancelled === null) {
      this.#fail(
        new BatonError(
          'backend.cancelled',
          'the worker cancelled a running request without being asked to',
        ),
      )
      return
    }
    if (chunk.finish !== undefined) {
      if (!this.#started) this.#endWithoutToken()
      this.#usageTokens = chunk.usage?.completionTokens ?? null
      this.#compare(chunk)
      this.#end(null)
    }
    this.#sink.onChunk(chunk)
  }

  onError(error: BatonError): void {
    if (this.#ended) return
    const { router, workerId } = this.#parts
    if (FENCING.has(error.code)) router.fence(workerId, FENCE_MS)
    this.#fail(error)
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#ended || this.#cancelled === 'kill' || this.#cancelled === kind) return
    this.#cancelled = kind
    this.#handle?.cancel(kind)
    if (kind === 'kill') this.#finishCancelled()
    else this.#arm(this.#parts.router.config.deadlines.cancelMs, 'cancel')
  }

  /** The leg's result is not needed any more: it is stopped unless it ends within the grace time of a cancellation. */
  endSoon(): void {
    const { cancelMs } = this.#parts.router.config.deadlines
    if (cancelMs > 0 && this.#cancelled === null) this.#arm(cancelMs, 'grace')
  }

  #compare(chunk: Chunk): void {
    const { router, card, phase, promptTokens, overlapBlocks, isEstimated } = this.#parts
    const isKnown = card.publishesKvEvents && router.config.useKvEvents && !isEstimated
    // Not the selection's cached tokens: these count blocks in host memory and on disk only in part, by their cost.
    const cachedTokens = overlapBlocks * router.blockSize
    router.answers.ended(chunk, { phase, promptTokens, cachedTokens, isKnown }, router.blockSize)
  }

  /** Takes the worker's timing out of the chunk; the rest of the chunk is forwarded. */
  #takeStart(start: unknown, chunk: Chunk): void {
    if (this.#start === null && !this.#started && isLegStart(start)) {
      this.#start = start
      if (start.transfer) this.#parts.router.answers.transferred(start.transfer.recomputed)
    }
    const { started: _, ...rest } = chunk
    const { tokenIds, finish, text } = rest
    if (tokenIds.length === 0 && text === undefined && finish === undefined) return
    this.onChunk(rest)
  }

  #firstItem(): void {
    this.#started = true
    const { router, booking, phase } = this.#parts
    router.prefillDone(booking)
    this.#reportPhases()
    if (phase === 'prefill' || this.#cancelled !== null) return
    this.#arm(router.config.deadlines.streamIdleMs, 'stream')
  }

  /** Hand-overs, embeddings and empty answers have no token: then the end shows how long the prompt took. */
  #endWithoutToken(): void {
    const { router, booking } = this.#parts
    if (this.#cancelled === null) router.prefillDone(booking)
    if (this.#start !== null) this.#reportPhases()
  }

  /**
   * Reports the phases at the first token, when the start time on the engine is known; without a report from the
   * worker the dispatch time is used.
   */
  #reportPhases(): void {
    if (this.#sink.onPhase === undefined) return
    const { clock, phase, workerId } = this.#parts
    const atMs = clock.nowMs()
    const sinceMs = atMs - this.#dispatchedMs
    const start = this.#start
    // Not kept for the life of a stream.
    this.#start = null
    const transfer = start?.transfer
    const elapsedMs = Math.min(start?.computeMs ?? sinceMs, sinceMs)
    const queuedMs = Math.max(0, sinceMs - elapsedMs - (transfer?.elapsedMs ?? 0))
    const startedMs = atMs - elapsedMs
    if (transfer !== undefined) {
      this.#sink.onPhase({ kind: 'kvTransferred', workerId, ...transfer, atMs: startedMs })
    }
    const kind = phase === 'decode' ? 'decodeStarted' : 'prefillStarted'
    this.#sink.onPhase({ kind, phase, workerId, queuedMs, atMs: startedMs })
    if (phase === 'decode') return
    this.#sink.onPhase({ kind: 'prefillDone', phase, workerId, elapsedMs, atMs })
  }

  #bookOutput(): void {
    const { router, booking } = this.#parts
    const untilNext = router.output(booking, this.#tokens - this.#tokensBooked)
    this.#tokensBooked = this.#tokens
    this.#bookAt = this.#tokens + untilNext
  }

  #arm(delayMs: number, stage: string): void {
    this.#timer?.cancel()
    this.#timer = null
    if (delayMs <= 0 || this.#ended) return
    this.#tokensSeen = this.#tokens
    this.#timer = this.#parts.clock.after(delayMs, () => this.#expire(delayMs, stage))
  }

  #expire(delayMs: number, stage: string): void {
    if (this.#ended) return
    if (stage === 'cancel' || stage === 'grace') {
      this.cancel(stage === 'grace' ? 'stop' : 'kill')
      return
    }
    if (stage === 'stream' && this.#tokens !== this.#tokensSeen) {
      this.#arm(delayMs, stage)
      return
    }
    const { workerId, phase } = this.#parts
    const error = new BatonError(
      'request.deadline_exceeded',
      `stage '${stage}': ${phase} worker ${workerId} took more than ${delayMs} ms`,
      { data: { stage, limitMs: delayMs, workerId, phase } },
    )
    this.#fail(error, 'kill')
  }

  #finishCancelled(): void {
    if (this.#ended) return
    this.#end(null)
    this.#sink.onChunk(finishChunk('cancelled'))
  }

  /**
   * Ends the leg with an error. With 'kill' the worker is cancelled, too; a worker in this process may respond before
   * `cancel` returns, so the leg is ended first.
   */
  #fail(error: BatonError, cancel?: 'kill'): void {
    const { workerId, phase } = this.#parts
    const { code, message, data } = error
    const named = new BatonError(code, message, {
      data: { stage: phase, workerId, ...data },
      cause: error,
    })
    this.#end(named)
    if (cancel !== undefined) this.#handle?.cancel(cancel)
    this.#sink.onError(named)
  }

  #end(error: BatonError | null): void {
    this.#ended = true
    this.#timer?.cancel()
    this.#timer = null
    const { router, booking } = this.#parts
    if (error === null && this.#cancelled === null)
      router.served(booking, this.#tokens, this.#usageTokens)
    router.free(booking)
    this.#parts.onEnd?.(error)
  }
}

/** The first token of an aggregated leg includes a whole prefill. */
function startDeadlineMs({ prefillMs, firstTokenMs }: StageDeadlines, phase: Phase): number {
  if (phase === 'prefill') return prefillMs
  if (phase === 'decode') return firstTokenMs
  return prefillMs === 0 || firstTokenMs === 0 ? 0 : prefillMs + firstTokenMs
}
