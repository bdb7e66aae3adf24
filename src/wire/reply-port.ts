/**
 * The worker's side of a request plane: what serves a request, how it answers, what a worker tells its frontends.
 *
 * The same handler stands behind a socket (`TcpWorkerServer`) and behind a plain call (`LocalRequestPlane`), so that
 * `--in-process` runs the code of the real thing.
 */
import type { BatonError } from '../base/index.ts'
import type { KvEventBatch, LoadReport } from '../kv/index.ts'
import type {
  Chunk,
  GenerateRequest,
  LegStart,
  RequestHandle,
  WorkerCard,
} from '../request/index.ts'

/** Where one request's answer goes. After its end (a chunk with `finish`, or `error`) calls are ignored. */
export interface ReplyPort {
  /** What was measured up to the first token; called at most once, before that token. */
  started(start: LegStart): void
  /** The common case: one token and nothing else. */
  token(tokenId: number): void
  /** Anything more than one bare token; the last one has `finish`, unless the reply ends in `error`. */
  chunk(chunk: Chunk): void
  /** Terminal. */
  error(error: BatonError): void
  /** The reader has credit. When false, a producer that can wait should await `drained` before it goes on. */
  readonly isWritable: boolean
  /** Resolves when the reader has credit again, or when the reply has ended. */
  drained(): Promise<void>
}

/** A request that a worker serves, for whoever asked. */
export interface ServedRequest extends RequestHandle {
  /** The reader is lost and has not said a word: what the request holds is given back. Absent: as a kill. */
  drop?(): void
}

/** What a worker hands to the plane. */
export interface WorkerHandler {
  /** Never throws. `cancel` is called when the frontend asks for it, `drop` when its connection is lost. */
  serve(request: GenerateRequest, reply: ReplyPort): ServedRequest
  /**
   * The full state of the KV cache for a subscriber that comes late or has missed something: per rank one batch
   * that begins with `cleared` and carries the number of the last batch published.
   */
  kvSnapshot?(): readonly KvEventBatch[]
  /** A frontend says that an offer will not be fetched of this worker. Unknown ids are ignored. */
  releaseKv?(offerId: string): void
  /** The newest load report of every rank, for a subscriber that comes late: what does not change is not reported again. */
  loadSnapshot?(): readonly LoadReport[]
  /** The worker's card; null: it takes no requests now. For peers that know only its address. */
  memberCard?(): WorkerCard | null
}

/** What a worker's process answers besides requests; what it is asked is unchecked. Rejects with why not. */
export interface WorkerAnswers {
  /** A command of an administrator: drain, resume, restart and the like. */
  command(question: unknown): Promise<unknown>
  /** A piece of the model's text side. */
  textPiece(question: unknown): Promise<unknown>
}

/** What a worker tells all frontends that are connected. */
export interface WorkerUplink {
  publishKvEvents(batch: KvEventBatch): void
  /** Only the newest report of a rank and step is sent. */
  publishLoad(report: LoadReport): void
  /** The engine's step is over: what was collected goes out now rather than at the end of the macrotask. */
  flush(): void
  /** From now on new requests are refused with `backend.worker_draining`; frontends are notified. */
  drain(): void
  /** The worker takes requests now, or no longer: peers that know only its address are told its card, or that there is none. */
  membershipChanged?(): void
}
