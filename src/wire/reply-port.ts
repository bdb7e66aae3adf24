/**
 * The worker's side of a request plane: the handler that serves a request, its replies, and a worker's reports to
 * frontends.
 *
 * The same handler is used behind a socket (`TcpWorkerServer`) and behind plain calls (`LocalRequestPlane`), so that
 * `--in-process` runs the same code.
 */
import type { BatonError } from '../base/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type { KvSnapshot } from './kv-snapshot.ts'
import type {
  Chunk,
  GenerateRequest,
  LegStart,
  RequestHandle,
  WorkerCard,
} from '../request/index.ts'

/** Receives the reply of one request. Calls after its end (a chunk with `finish`, or `error`) are ignored. */
export interface ReplyPort {
  /** Times measured up to the first token; called at most once, before that token. */
  started(start: LegStart): void
  /** The common case: one token and nothing else. */
  token(tokenId: number): void
  /** Anything other than a single token; the last chunk has `finish`, unless the reply ends with `error`. */
  chunk(chunk: Chunk): void
  /** Terminal. */
  error(error: BatonError): void
  /**
   * The reader has credit (flow control). If false, a producer that can wait should await `drained` before it
   * continues.
   */
  readonly isWritable: boolean
  /** Resolves when the reader has credit again, or when the reply has ended. */
  drained(): Promise<void>
}

/** A request being served. */
export interface ServedRequest extends RequestHandle {
  /**
   * The reader's connection was lost without a cancellation: releases the request's resources. Absent: treated as a
   * kill.
   */
  drop?(): void
}

/** The handler that a worker registers with the plane. */
export interface WorkerHandler {
  /** Never throws. `cancel` is called when the frontend asks for it, `drop` when its connection is lost. */
  serve(request: GenerateRequest, reply: ReplyPort): ServedRequest
  /** The full state of the KV cache, for a subscriber that joined late or missed events. */
  kvSnapshot?(): KvSnapshot
  /** A frontend reports that an offer of this worker will not be fetched. Unknown ids are ignored. */
  releaseKv?(offerId: string): void
  /** The frontend that was given this offer is gone and cannot report any more. Unknown ids are ignored. */
  frontendLost?(offerId: string): void
  /** The newest load report of every rank, for a subscriber that joined late: unchanged load is not reported again. */
  loadSnapshot?(): readonly LoadReport[]
  /** The worker's card, for peers that know only its address; null: it takes no requests now. */
  memberCard?(): WorkerCard | null
}

/** What a worker's process answers besides requests. Questions are not validated yet; rejects with the reason. */
export interface WorkerAnswers {
  /** An admin command: drain, resume, restart and others. */
  command(question: unknown): Promise<unknown>
  /** A piece of the model's tokenizer and template files. */
  textPiece(question: unknown): Promise<unknown>
}

/** Reports from a worker to all connected frontends. */
export interface WorkerUplink {
  publishKvEvents(batch: KvEventBatch): void
  /** Only the newest report of a rank per step is sent. */
  publishLoad(report: LoadReport): void
  /** The engine step is over: sends what was collected now instead of at the end of the macrotask. */
  flush(): void
  /** From now on new requests are refused with `backend.worker_draining`; frontends are notified. */
  drain(): void
  /**
   * The worker starts or stops taking requests: peers that know only its address get its card, or are told that there
   * is none.
   */
  membershipChanged?(): void
}
