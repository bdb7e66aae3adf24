/**
 * The interface "serve this request" that every layer below HTTP has: migration wraps the prefill router, which wraps
 * the worker routers, which call the request plane.
 *
 * Tokens are delivered by plain calls, not promises: a sink is called once per chunk, in order, and receives its end
 * exactly once (a chunk with `finish`, or `onError`). Nothing is called after the end.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { Chunk } from './chunk.ts'
import type { GenerateRequest } from './generate-request.ts'
import type { PhaseEvent } from './phase-event.ts'

export interface ReplySink {
  /** The common case: one token and nothing else. */
  onToken(tokenId: number): void
  /** Anything other than a single token. The last chunk has `finish`, unless the reply ends with `onError`. */
  onChunk(chunk: Chunk): void
  /** The end, instead of a chunk with `finish`. */
  onError(error: BatonError): void
  /** Progress of the request; a few events per request, none per token. */
  onPhase?(event: PhaseEvent): void
}

export interface RequestHandle {
  /** `stop`: orderly, the reply ends with `cancelled`. `kill`: at once. Idempotent; no effect after the end. */
  cancel(kind: 'stop' | 'kill'): void
}

export interface RequestService {
  /** Never throws: errors are reported to the sink, possibly before this call returns. */
  send(request: GenerateRequest, sink: ReplySink): RequestHandle
}

/** Sends a request to a given worker. Two implementations: `local` (same process) and `tcp`. */
export interface RequestPlane {
  /** Never throws, like `RequestService`. */
  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle
  /**
   * The KV offered by the worker's prefill leg will not be fetched, so the worker can free it before the lease
   * expires.
   */
  releaseKv?(workerId: WorkerId, offerId: string): void
  close(): Promise<void>
}
