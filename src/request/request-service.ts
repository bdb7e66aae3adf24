/**
 * The one shape of "serve this request" that every layer below HTTP has: migration wraps the prefill router, which
 * wraps the worker routers, which call the request plane.
 *
 * The token's way is made of plain calls, not of promises: a sink is called once per chunk, in order, and its end
 * exactly once (a chunk with `finish`, or `onError`). After the end nothing is called.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { Chunk } from './chunk.ts'
import type { GenerateRequest } from './generate-request.ts'
import type { PhaseEvent } from './phase-event.ts'

export interface ReplySink {
  /** The common case: one token and nothing else. */
  onToken(tokenId: number): void
  /** Anything more than one bare token. The last one has `finish`, unless the reply ends in `onError`. */
  onChunk(chunk: Chunk): void
  /** Terminal, instead of a chunk with `finish`. */
  onError(error: BatonError): void
  /** What has happened to the request so far; several per request, none per token. */
  onPhase?(event: PhaseEvent): void
}

export interface RequestHandle {
  /** `stop`: orderly, the reply ends with `cancelled`. `kill`: at once. Idempotent; nothing after the end. */
  cancel(kind: 'stop' | 'kill'): void
}

export interface RequestService {
  /** Never throws: what goes wrong comes to the sink, also before this call returns. */
  send(request: GenerateRequest, sink: ReplySink): RequestHandle
}

/** How a request reaches one given worker. Two implementations: `local` (same process) and `tcp`. */
export interface RequestPlane {
  /** Never throws, as in `RequestService`. */
  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle
  /** What the worker's prefill leg has offered will not be fetched: it need not wait for the end of the lease. */
  releaseKv?(workerId: WorkerId, offerId: string): void
  close(): Promise<void>
}
