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

/** The sink of every attempt, one after the other: after its end an attempt calls nothing (see `ReplySink`). */
class MigratingReply implements ReplySink, RequestHandle {
  readonly #sink: ReplySink
  /** Everything generated so far, over all attempts. */
  readonly #tokens: number[] = []
  readonly #below: RequestService
  readonly #request: GenerateRequest
  readonly #options: MigrationOptions
  /** Where the attempt that runs was placed. */
  #workerId: WorkerId | undefined
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
    this.#sink = sink
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

  onToken(tokenId: number): void {
    this.#tokens.push(tokenId)
    this.#sink.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    for (const tokenId of chunk.tokenIds) this.#tokens.push(tokenId)
    this.#sink.onChunk(chunk)
  }

  onRouted(event: RoutedEvent): void {
    this.#workerId = event.workerId
    this.#sink.onRouted?.(event)
  }

  onPrefillDone(atMs: number): void {
    this.#sink.onPrefillDone?.(atMs)
  }

  onError(error: BatonError): void {
    const lost = lostWorker(error) ?? this.#workerId
    // When no worker could be had, another look at once would find none either.
    const noneToBeHad = lost === undefined && error.code === 'backend.worker_unavailable'
    if (noneToBeHad || !this.#mayTryAgain(error)) {
      this.#sink.onError(error)
      return
    }
    if (lost !== undefined && !this.#excluded.includes(lost)) this.#excluded.push(lost)
    this.#options.onMigrated?.({
      requestId: this.#request.requestId,
      model: this.#request.model,
      kind: this.#tokens.length === 0 ? 'new_request' : 'ongoing_request',
      attempt: this.#attemptCount,
      errorCode: error.code,
      resumedTokens: this.#tokens.length,
      ...(lost === undefined ? {} : { failedWorkerId: lost }),
    })
    const next = this.#resumed()
    if (next === null) this.#sink.onChunk(finishChunk('length'))
    else this.#send(next)
  }

  #mayTryAgain(error: BatonError): boolean {
    const { limit, maxSequenceTokens } = this.#options
    const length = this.#request.tokenIds.length + this.#tokens.length
    return (
      error.row.migratable &&
      this.#cancelled === null &&
      this.#attemptCount <= limit &&
      (maxSequenceTokens === undefined || length <= maxSequenceTokens)
    )
  }

  #send(request: GenerateRequest): void {
    this.#workerId = undefined
    this.#attemptCount += 1
    const attempt = this.#attemptCount
    const handle = this.#below.send(request, this)
    // The attempt may have failed inside `send`; then a later one has set the handle already.
    if (this.#attemptCount !== attempt) return
    this.#handle = handle
    if (this.#cancelled !== null) handle.cancel(this.#cancelled)
  }

  /** Null when everything that was asked for has been generated, and only the end was lost. */
  #resumed(): GenerateRequest | null {
    const next = resumedRequest(this.#request, this.#tokens)
    if (next === null) return null
    return { ...next, routing: { ...next.routing, excludedWorkerIds: [...this.#excluded] } }
  }
}

/** A layer below that knows better says which worker it was. */
function lostWorker(error: BatonError): WorkerId | undefined {
  const { workerId } = error.data
  return typeof workerId === 'string' ? (parseWorkerId(workerId) ?? undefined) : undefined
}
