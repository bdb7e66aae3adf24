/**
 * When a worker is lost, the request goes on at another one with the tokens so far. The client sees a pause.
 *
 * Wraps any RequestService. An attempt that fails with a migratable error is followed by another one whose prompt ends
 * with the generated tokens; text that was sent is never sent again. Not migrated: what a grammar holds to a shape, what
 * the client pinned to a worker, and what has been cancelled.
 */
import { parseWorkerId } from '../base/index.ts'
import type { BatonError, WorkerId } from '../base/index.ts'
import { finishChunk } from '../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestService,
  RoutedEvent,
} from '../request/index.ts'
import type { Migration } from './frontend-observer.ts'
import { resumedRequest } from './resumed-request.ts'

interface MigrationOptions {
  /** Further attempts after the first one. 0: none. */
  readonly limit: number
  /** A sequence longer than this is not carried on. */
  readonly maxSequenceTokens?: number
  readonly onMigrated?: (migration: Migration) => void
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

class MigratingReply implements RequestHandle {
  readonly #below: RequestService
  readonly #request: GenerateRequest
  readonly sink: ReplySink
  readonly #options: MigrationOptions
  /** Everything generated so far, over all attempts. */
  readonly tokens: number[] = []
  #attempt: Attempt | null = null
  #handle: RequestHandle | null = null
  #attemptCount = 0
  #cancelled: 'stop' | 'kill' | null = null
  readonly #excluded: WorkerId[]

  constructor(
    below: RequestService,
    request: GenerateRequest,
    sink: ReplySink,
    options: MigrationOptions,
  ) {
    this.#below = below
    this.#request = request
    this.sink = sink
    this.#options = options
    this.#excluded = [...(request.routing.excludedWorkerIds ?? [])]
  }

  start(): this {
    this.#send(this.#request)
    return this
  }

  cancel(kind: 'stop' | 'kill'): void {
    this.#cancelled = kind
    this.#handle?.cancel(kind)
  }

  isCurrent(attempt: Attempt): boolean {
    return this.#attempt === attempt
  }

  /** Nothing more comes from this attempt. */
  ended(): void {
    this.#attempt = null
  }

  failed(attempt: Attempt, error: BatonError): void {
    this.#attempt = null
    if (!this.#mayTryAgain(error)) {
      this.sink.onError(error)
      return
    }
    const lost = lostWorker(error) ?? attempt.workerId
    if (lost !== undefined && !this.#excluded.includes(lost)) this.#excluded.push(lost)
    this.#options.onMigrated?.({
      requestId: this.#request.requestId,
      model: this.#request.model,
      kind: this.tokens.length === 0 ? 'new_request' : 'ongoing_request',
      attempt: this.#attemptCount,
      errorCode: error.code,
      resumedTokens: this.tokens.length,
      ...(lost === undefined ? {} : { failedWorkerId: lost }),
    })
    const next = this.#resumed()
    if (next === null) this.sink.onChunk(finishChunk('length'))
    else this.#send(next)
  }

  #mayTryAgain(error: BatonError): boolean {
    const { limit, maxSequenceTokens } = this.#options
    const length = this.#request.tokenIds.length + this.tokens.length
    return (
      error.row.migratable &&
      this.#cancelled === null &&
      this.#attemptCount <= limit &&
      (maxSequenceTokens === undefined || length <= maxSequenceTokens)
    )
  }

  #send(request: GenerateRequest): void {
    const attempt = new Attempt(this)
    this.#attempt = attempt
    this.#attemptCount += 1
    const handle = this.#below.send(request, attempt)
    // The attempt may have failed inside `send`; then a later one has set the handle already.
    if (this.#attempt !== attempt) return
    this.#handle = handle
    if (this.#cancelled !== null) handle.cancel(this.#cancelled)
  }

  /** Null when everything that was asked for has been generated, and only the end was lost. */
  #resumed(): GenerateRequest | null {
    const next = resumedRequest(this.#request, this.tokens)
    if (next === null) return null
    return { ...next, routing: { ...next.routing, excludedWorkerIds: [...this.#excluded] } }
  }
}

/** The sink of one attempt; what comes late from an attempt that has ended goes nowhere. */
class Attempt implements ReplySink {
  readonly #reply: MigratingReply
  workerId: WorkerId | undefined

  constructor(reply: MigratingReply) {
    this.#reply = reply
  }

  onToken(tokenId: number): void {
    const reply = this.#reply
    if (!reply.isCurrent(this)) return
    reply.tokens.push(tokenId)
    reply.sink.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    const reply = this.#reply
    if (!reply.isCurrent(this)) return
    for (const tokenId of chunk.tokenIds) reply.tokens.push(tokenId)
    if (chunk.finish !== undefined) reply.ended()
    reply.sink.onChunk(chunk)
  }

  onError(error: BatonError): void {
    if (this.#reply.isCurrent(this)) this.#reply.failed(this, error)
  }

  onRouted(event: RoutedEvent): void {
    if (!this.#reply.isCurrent(this)) return
    this.workerId = event.workerId
    this.#reply.sink.onRouted?.(event)
  }

  onPrefillDone(atMs: number): void {
    if (this.#reply.isCurrent(this)) this.#reply.sink.onPrefillDone?.(atMs)
  }
}

/** A layer below that knows better says which worker it was. */
function lostWorker(error: BatonError): WorkerId | undefined {
  const { workerId } = error.data
  return typeof workerId === 'string' ? (parseWorkerId(workerId) ?? undefined) : undefined
}
