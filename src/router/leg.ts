/**
 * One leg of a request on one worker: from dispatch to its single end.
 *
 * Owns: the booking's life (prefill done at the first token, output counted, freed exactly once before the end is told)
 * and the deadlines of the leg. Per token it counts and passes the token on: no promise, no allocation, no other object;
 * the booking hears of output when a block begins.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, ErrorCode, Timer } from '../base/index.ts'
import { finishChunk } from '../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  Phase,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../request/index.ts'
import type { Booking } from './active-sequences.ts'
import type { KvRouter } from './kv-router.ts'
import type { StageDeadlines } from './router-config.ts'
import type { Selection } from './selection.ts'

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

export interface LegParts {
  readonly router: KvRouter
  readonly plane: RequestPlane
  readonly clock: Clock
  readonly selection: Selection
  readonly booking: Booking
  /** Called at the end, after the booking is freed and before the sink is told. */
  onEnd?(error: BatonError | null): void
}

export class Leg implements ReplySink, RequestHandle {
  // What every token reads comes first, so that it lies together.
  readonly #sink: ReplySink
  #ended = false
  #started = false
  #tokens = 0
  /** The count at which the booking has to hear of output again, and the tokens that it knows of. */
  #tellAt = 1
  #tokensTold = 0
  #tokensSeen = 0
  readonly #parts: LegParts
  #handle: RequestHandle | null = null
  #cancelled: 'stop' | 'kill' | null = null
  #timer: Timer | null = null

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
    const count = chunk.tokenIds.length
    if (count > 0) {
      if (!this.#started) this.#firstItem()
      this.#tokens += count
      if (this.#tokens >= this.#tellAt) this.#tellOutput()
    }
    if (chunk.finish !== undefined) this.#end(null)
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

  #firstItem(): void {
    this.#started = true
    const { router, booking, selection } = this.#parts
    router.prefillDone(booking)
    if (selection.phase === 'prefill' || this.#cancelled !== null) return
    this.#arm(router.config.deadlines.streamIdleMs, 'stream')
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
    this.#handle?.cancel('kill')
    const { workerId, phase } = this.#parts.selection
    this.#fail(
      new BatonError(
        'request.deadline_exceeded',
        `stage '${stage}': ${phase} worker ${workerId} took more than ${delayMs} ms`,
        { data: { stage, limitMs: delayMs, workerId, phase } },
      ),
    )
  }

  #finishCancelled(): void {
    if (this.#ended) return
    this.#end(null)
    this.#sink.onChunk(finishChunk('cancelled'))
  }

  #fail(error: BatonError): void {
    const { workerId, phase } = this.#parts.selection
    const { code, message, data } = error
    const named = new BatonError(code, message, {
      data: { stage: phase, workerId, ...data },
      cause: error,
    })
    this.#end(named)
    this.#sink.onError(named)
  }

  #end(error: BatonError | null): void {
    this.#ended = true
    this.#timer?.cancel()
    this.#timer = null
    this.#parts.router.free(this.#parts.booking)
    this.#parts.onEnd?.(error)
  }
}

/** The first token of an aggregated leg has a whole prefill before it. */
function startDeadlineMs({ prefillMs, firstTokenMs }: StageDeadlines, phase: Phase): number {
  if (phase === 'prefill') return prefillMs
  if (phase === 'decode') return firstTokenMs
  return prefillMs === 0 || firstTokenMs === 0 ? 0 : prefillMs + firstTokenMs
}
