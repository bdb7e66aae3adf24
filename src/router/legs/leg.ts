/**
 * One leg of a request on one worker: from dispatch to its single end.
 *
 * Owns: the booking's life (prefill done at the first token, output counted, freed exactly once before the end is told)
 * and the deadlines of the leg. Per token it counts and passes the token on: no promise, no allocation, no other object;
 * the booking is updated when a block of output begins.
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

/** After these a worker is left out for a while: it did not answer, or said that it is leaving. */
const FENCING: ReadonlySet<ErrorCode> = new Set([
  'transport.cannot_connect',
  'transport.disconnected',
  'transport.connection_timeout',
  'backend.engine_shutdown',
  'backend.worker_draining',
  'backend.response_timeout',
])
const FENCE_MS = 2000

/** What a leg needs of its selection. The rest, with the prompt's hashes, is not held for as long as a stream runs. */
export type Selected = Pick<
  Selection,
  'workerId' | 'phase' | 'card' | 'promptTokens' | 'cachedTokens' | 'isEstimated'
>

export interface LegParts {
  readonly router: KvRouter
  readonly plane: RequestPlane
  readonly clock: Clock
  readonly selection: Selected
  readonly booking: Booking
  /** Called at the end, after the booking is freed and before the sink is notified. */
  readonly onEnd?: ((error: BatonError | null) => void) | undefined
}

export class Leg implements ReplySink, RequestHandle {
  // What every token reads comes first, so that it lies together.
  readonly #sink: ReplySink
  #ended = false
  #started = false
  #tokens = 0
  /** The token count at which the booking is updated next, and the count that it has. */
  #tellAt = 1
  #tokensTold = 0
  #tokensSeen = 0
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
    const { plane, selection, router } = this.#parts
    const isPrefill = selection.phase === 'prefill'
    this.#arm(
      startDeadlineMs(router.config.deadlines, selection.phase),
      isPrefill ? 'prefill' : 'first token',
    )
    this.#dispatchedMs = this.#parts.clock.nowMs()
    this.#handle = plane.send(selection.workerId, request, this)
    if (this.#cancelled !== null && !this.#ended) this.#handle.cancel(this.#cancelled)
  }

  onToken(tokenId: number): void {
    if (this.#ended) return
    if (!this.#started) this.#firstItem()
    this.#tokens++
    if (this.#tokens >= this.#tellAt) this.#tellOutput()
    this.#sink.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    if (this.#ended) return
    if (chunk.started !== undefined) return this.#takeStart(chunk.started, chunk)
    // What a text stands for is reported at the end only; until then each piece counts for one token.
    const count = (chunk.text ?? '') === '' ? chunk.tokenIds.length : 1
    if (count > 0) {
      if (!this.#started) this.#firstItem()
      this.#tokens += count
      if (this.#tokens >= this.#tellAt) this.#tellOutput()
    }
    if (chunk.finish === 'cancelled' && this.#cancelled === null) {
      this.#fail(new BatonError('backend.cancelled', 'the worker gave up a request that runs'))
      return
    }
    if (chunk.finish !== undefined) {
      // A prefill worker may end with its hand-over and no token.
      if (!this.#started && this.#start !== null) this.#tellPhases()
      this.#compare(chunk)
      this.#end(null)
    }
    this.#sink.onChunk(chunk)
  }

  onError(error: BatonError): void {
    if (this.#ended) return
    const { router, selection } = this.#parts
    if (FENCING.has(error.code)) router.fence(selection.workerId, FENCE_MS)
    this.#fail(error)
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#ended || this.#cancelled === 'kill' || this.#cancelled === kind) return
    this.#cancelled = kind
    this.#handle?.cancel(kind)
    if (kind === 'kill') this.#finishCancelled()
    else this.#arm(this.#parts.router.config.deadlines.cancelMs, 'cancel')
  }

  #compare(chunk: Chunk): void {
    const { router, selection } = this.#parts
    const { card, phase, promptTokens, cachedTokens, isEstimated } = selection
    const isKnown = card.publishesKvEvents && router.config.useKvEvents && !isEstimated
    router.answers.ended(chunk, { phase, promptTokens, cachedTokens, isKnown }, router.blockSize)
  }

  /** What the worker has measured is the router's; the rest of the chunk goes on as if it stood alone. */
  #takeStart(start: unknown, chunk: Chunk): void {
    if (isLegStart(start)) this.#start ??= start
    const { started: _, ...rest } = chunk
    const { tokenIds, finish, text } = rest
    if (tokenIds.length === 0 && text === undefined && finish === undefined) return
    this.onChunk(rest)
  }

  #firstItem(): void {
    this.#started = true
    const { router, booking, selection } = this.#parts
    router.prefillDone(booking)
    this.#tellPhases()
    if (selection.phase === 'prefill' || this.#cancelled !== null) return
    this.#arm(router.config.deadlines.streamIdleMs, 'stream')
  }

  /** At the first token it is known when the engine began; a worker that does not tell began when it was sent to. */
  #tellPhases(): void {
    if (this.#sink.onPhase === undefined) return
    const { clock, selection } = this.#parts
    const { phase, workerId } = selection
    const atMs = clock.nowMs()
    const sinceMs = atMs - this.#dispatchedMs
    const transfer = this.#start?.transfer
    const elapsedMs = Math.min(this.#start?.computeMs ?? sinceMs, sinceMs)
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

  #tellOutput(): void {
    const { router, booking } = this.#parts
    const untilNext = router.output(booking, this.#tokens - this.#tokensTold)
    this.#tokensTold = this.#tokens
    this.#tellAt = this.#tokens + untilNext
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
    if (stage === 'cancel') {
      this.cancel('kill')
      return
    }
    if (stage === 'stream' && this.#tokens !== this.#tokensSeen) {
      this.#arm(delayMs, stage)
      return
    }
    const { workerId, phase } = this.#parts.selection
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

  /** With 'kill' the worker is told, too; one in this process may answer that before `cancel` returns, so the leg has ended by then. */
  #fail(error: BatonError, cancel?: 'kill'): void {
    const { workerId, phase } = this.#parts.selection
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
    if (error === null && this.#cancelled === null) router.served(booking, this.#tokens)
    router.free(booking)
    this.#parts.onEnd?.(error)
  }
}

/** The first token of an aggregated leg has a whole prefill before it. */
function startDeadlineMs({ prefillMs, firstTokenMs }: StageDeadlines, phase: Phase): number {
  if (phase === 'prefill') return prefillMs
  if (phase === 'decode') return firstTokenMs
  return prefillMs === 0 || firstTokenMs === 0 ? 0 : prefillMs + firstTokenMs
}
