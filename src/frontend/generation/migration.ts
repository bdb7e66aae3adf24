/**
 * Continues a request on another worker, with the tokens so far, when its worker is lost. The client sees a
 * pause.
 *
 * Wraps any RequestService. After an attempt that failed with a migratable error the next attempt's prompt ends
 * with the generated tokens; text that was sent is never sent again. While no worker is registered, or all are
 * full, a request that was running waits for up to `waitMs` and is tried again; so does one that was queued when
 * the last worker was lost. One that arrives while there is none is refused at once. Not migrated: guided output,
 * requests that the client pinned to a worker, and cancelled requests.
 */
import { BatonError, loggedMessage, parseWorkerId } from '../../base/index.ts'
import type { Clock, Timer, WorkerId } from '../../base/index.ts'
import { finishChunk, isOfHandOver } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
  RequestService,
} from '../../request/index.ts'
import type { Tokenizer } from '../../text/index.ts'
import type { Migration } from './frontend-event.ts'
import { GeneratedOutput } from './generated-output.ts'
import { resumedRequest, withoutResumed } from './resumed-request.ts'

/** Interval of attempts while no worker is available; a worker that joins is found with at most this delay. */
const HELD_RETRY_MS = 200
/** The interval doubles at most this often, once for each worker that was found and failed. */
const HELD_DOUBLINGS_MAX = 4

/** While another request has just found no worker, a waiting one skips at most so many attempts in a row. */
const HELD_SKIPS_MAX = 4

const NONE: readonly WorkerId[] = []

/** When an attempt last found no worker, by the service below, which all requests for a model share. */
const noneFoundMs = new WeakMap<RequestService, number>()

export interface MigrationOptions {
  /** Most attempts after the first one. 0: none. */
  readonly limit: number
  /** Milliseconds that a running request waits for a worker; absent or 0: it does not wait. */
  readonly waitMs?: number
  /** A longer sequence is not continued. */
  readonly maxSequenceTokens?: number
  /** Tokenises an engine's text. Absent: a request that was answered with text is not continued. */
  readonly tokenizer?: Pick<Tokenizer, 'encode'>
  readonly clock: Clock
  readonly record?: { tell(migration: Migration): void }
}

export function createMigratingService(
  below: RequestService,
  options: MigrationOptions,
): RequestService {
  return {
    send(request, sink) {
      const attempts = mayMigrate(request) ? options.limit : 0
      if (attempts === 0) return below.send(request, sink)
      return new MigratingReply(below, request, sink, options).start()
    },
  }
}

function mayMigrate(request: GenerateRequest): boolean {
  const { routing, sampling } = request
  if (sampling.guided !== undefined || (sampling.n ?? 1) > 1) return false
  if (routing.queryOnly === true) return false
  return (
    routing.backendWorkerId === undefined &&
    routing.prefillWorkerId === undefined &&
    routing.decodeWorkerId === undefined
  )
}

interface Held {
  readonly sinceMs: number
  readonly tokens: number
  /** Number of workers that were found and failed since then. */
  readonly failures: number
}

/** The sink of all attempts, one after the other. An attempt calls nothing after its end (see `ReplySink`). */
class MigratingReply implements ReplySink, RequestHandle {
  readonly #sink: ReplySink
  readonly #output: GeneratedOutput
  /** Output tokens of earlier attempts that are in the current attempt's prompt. */
  #resumedTokens = 0
  readonly #below: RequestService
  readonly #request: GenerateRequest
  readonly #options: MigrationOptions
  /** The worker of the current attempt. */
  #workerId: WorkerId | undefined
  /** Null until an attempt was not refused at once: a worker has it, or it is queued for one. */
  #handle: RequestHandle | null = null
  #attemptCount = 0
  /** Number of attempts after the loss of a worker. */
  #resendCount = 0
  /** Set while no worker is available: since when, and the number of tokens at that time. */
  #held: Held | null = null
  /**
   * The last error of a worker that had the request; it is more informative than that no other worker is available.
   */
  #failure: BatonError | null = null
  /** A hand-over was refused: a second refusal is of the request itself. */
  #wasRefused = false
  #retry: Timer | null = null
  #skips = 0
  #cancelled: 'stop' | 'kill' | null = null
  #excluded: readonly WorkerId[]

  constructor(
    below: RequestService,
    request: GenerateRequest,
    sink: ReplySink,
    options: MigrationOptions,
  ) {
    this.#below = below
    this.#request = request
    this.#sink = sink
    this.#options = options
    this.#output = new GeneratedOutput(options.tokenizer)
    this.#excluded = request.routing.excludedWorkerIds ?? NONE
  }

  start(): this {
    this.#send(this.#request)
    return this
  }

  cancel(kind: 'stop' | 'kill'): void {
    this.#cancelled = kind
    if (this.#retry === null) {
      this.#handle?.cancel(kind)
      return
    }
    this.#retry.cancel()
    this.#retry = null
    this.#sink.onChunk(finishChunk('cancelled'))
  }

  onToken(tokenId: number): void {
    this.#output.push(tokenId)
    this.#sink.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    this.#output.take(chunk)
    this.#sink.onChunk(withoutResumed(chunk, this.#resumedTokens))
  }

  onPhase(event: PhaseEvent): void {
    if (event.kind === 'routed') this.#workerId = event.workerId
    this.#sink.onPhase?.(event)
  }

  onError(error: BatonError): void {
    const tokens = this.#output.tokens()
    const lost = lostWorker(error) ?? this.#workerId
    // When no worker is available, an immediate second search would find none either.
    const noneToBeHad = lost === undefined && error.code === 'backend.worker_unavailable'
    if (noneToBeHad) noneFoundMs.set(this.#below, this.#options.clock.nowMs())
    else this.#failure = error
    if (this.#mayHold(error, noneToBeHad, tokens.length)) {
      this.#hold(tokens)
      return
    }
    if (noneToBeHad || this.#resendCount >= this.#options.limit || !this.#canGoOn(error, tokens)) {
      this.#sink.onError(noneToBeHad ? becauseOf(error, this.#failure) : error)
      return
    }
    if (lost !== undefined && !this.#excluded.includes(lost))
      this.#excluded = [...this.#excluded, lost]
    this.#options.record?.tell({
      kind: 'migrated',
      request: tokens.length === 0 ? 'new_request' : 'ongoing_request',
      attempt: this.#attemptCount,
      errorCode: error.code,
      errorMessage: loggedMessage(error),
      resumedTokens: tokens.length,
      ...(lost === undefined ? {} : { failedWorkerId: lost }),
      atMs: this.#options.clock.nowMs(),
    })
    this.#resendCount++
    this.#wasRefused ||= !error.row.migratable
    // The wait was for a worker, and one has answered: the time that it took is not a part of the next wait.
    if (isAnswer(error)) this.#held = null
    this.#goOn(tokens)
  }

  #canGoOn(error: BatonError, { length }: Uint32Array): boolean {
    const { maxSequenceTokens = Infinity } = this.#options
    return (
      (error.row.migratable || (isOfHandOver(error) && !this.#wasRefused)) &&
      this.#cancelled === null &&
      !this.#output.isLost &&
      this.#request.tokenIds.length + length <= maxSequenceTokens
    )
  }

  /** True when the request was running, or was queued, and no worker can take it now. */
  #mayHold(error: BatonError, noneToBeHad: boolean, tokenCount: number): boolean {
    const { waitMs = 0, clock } = this.#options
    const held = this.#held?.tokens === tokenCount ? this.#held : null
    const wasQueued = this.#handle !== null && noneToBeHad && error.data['isClosing'] !== true
    const hasBegun = this.#attemptCount > 1 || tokenCount > 0 || wasQueued
    const isFull = error.row.class === 'CapacityExhausted'
    // A failed attempt during the wait costs time but does not count as an attempt. An engine that answered
    // with an error would fail again, so each of these counts.
    const isHoldable =
      noneToBeHad || isFull || (held !== null && error.row.migratable && !isAnswer(error))
    if (!hasBegun || !isHoldable || this.#cancelled !== null || this.#output.isLost) return false
    const nowMs = clock.nowMs()
    const failures = (held?.failures ?? 0) + (held === null || noneToBeHad || isFull ? 0 : 1)
    this.#held = { sinceMs: held?.sinceMs ?? nowMs, tokens: tokenCount, failures }
    return nowMs - this.#held.sinceMs < waitMs
  }

  #hold(tokens: Uint32Array): void {
    this.#retry = this.#options.clock.after(this.#pauseMs(), () => {
      this.#retry = null
      if (this.#maySkip()) {
        this.#skips++
        this.#hold(tokens)
        return
      }
      this.#skips = 0
      // Workers that were lost may be back.
      this.#excluded = this.#request.routing.excludedWorkerIds ?? NONE
      this.#goOn(tokens)
    })
  }

  /**
   * Each attempt costs a decision: with thousands that wait these would take a whole core. Not more often, because others
   * may need another worker; and never at the end of the wait.
   */
  #maySkip(): boolean {
    const { waitMs = 0, clock } = this.#options
    const nowMs = clock.nowMs()
    const isLast = nowMs + HELD_RETRY_MS > (this.#held?.sinceMs ?? 0) + waitMs
    const noneMs = noneFoundMs.get(this.#below) ?? -Infinity
    return this.#skips < HELD_SKIPS_MAX && nowMs - noneMs < HELD_RETRY_MS && !isLast
  }

  /** The last attempt is made at the end of the wait. */
  #pauseMs(): number {
    const { waitMs = 0, clock } = this.#options
    const { failures = 0, sinceMs = 0 } = this.#held ?? {}
    const pauseMs = HELD_RETRY_MS * 2 ** Math.min(failures, HELD_DOUBLINGS_MAX)
    return Math.max(HELD_RETRY_MS, Math.min(pauseMs, sinceMs + waitMs - clock.nowMs()))
  }

  #goOn(tokens: Uint32Array): void {
    const next = this.#resumed(tokens)
    if (next === null) this.#sink.onChunk(finishChunk('length'))
    else this.#send(next)
  }

  #send(request: GenerateRequest): void {
    this.#workerId = undefined
    this.#resumedTokens = (request.resumedTokens ?? 0) - (this.#request.resumedTokens ?? 0)
    this.#attemptCount += 1
    const attempt = this.#attemptCount
    const handle = this.#below.send(request, this)
    // The attempt may have failed inside `send`; then a later attempt has set the handle already.
    if (this.#attemptCount !== attempt) return
    this.#handle = handle
    if (this.#cancelled !== null) handle.cancel(this.#cancelled)
  }

  /** Null when all requested tokens were generated and only the end was lost. */
  #resumed(tokens: Uint32Array): GenerateRequest | null {
    const next = resumedRequest(this.#request, tokens)
    if (next === null) return null
    return { ...next, routing: { ...next.routing, excludedWorkerIds: this.#excluded } }
  }
}

/** An engine's own answer, not a lost connection to it. */
function isAnswer({ data }: BatonError): boolean {
  return data['upstreamStatus'] !== undefined
}

/** The worker that failed, when a lower layer names it in the error. */
function lostWorker(error: BatonError): WorkerId | undefined {
  const { workerId } = error.data
  return typeof workerId === 'string' ? (parseWorkerId(workerId) ?? undefined) : undefined
}

/** No worker is available, often because of the failure of the last one. */
function becauseOf(error: BatonError, failure: BatonError | null): BatonError {
  if (failure === null) return error
  // A refusal says more.
  if (!failure.row.migratable && isOfHandOver(failure)) return failure
  const text = `${error.message}; the last worker failed: ${failure.message}`
  return new BatonError(error.code, text, { data: error.data, cause: failure })
}
