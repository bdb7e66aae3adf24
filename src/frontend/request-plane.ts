/**
 * How the frontend reaches workers. Two implementations: `local` (a call in the same process) and `tcp`.
 *
 * The token's way is made of plain calls, not of promises: a sink is called once per chunk, in order, and its end
 * exactly once.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type { Chunk, GenerateRequest, WorkerCard } from '../request/index.ts'

export interface ReplySink {
  /** The common case: one token and nothing else. */
  onToken(tokenId: number): void
  /** Anything more than one bare token. The last one has `finish`, unless the reply ends in `onError`. */
  onChunk(chunk: Chunk): void
  /** Terminal, instead of a chunk with `finish`. */
  onError(error: BatonError): void
}

export interface RequestHandle {
  /** `stop`: orderly, the worker answers with `cancelled`. `kill`: at once. Idempotent; nothing after the end. */
  cancel(kind: 'stop' | 'kill'): void
}

export interface RequestPlane {
  /** Never throws: what goes wrong comes to the sink, also before this call returns. */
  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle
  close(): Promise<void>
}

/** What the fleet tells the frontend, from discovery and from the workers' own connections. */
export interface FleetObserver {
  workerJoined(card: WorkerCard): void
  workerLeft(workerId: WorkerId, reason: string): void
  kvEvents(workerId: WorkerId, batch: KvEventBatch): void
  load(workerId: WorkerId, report: LoadReport): void
}
