/**
 * Sends requests to workers of the same process: direct calls to the handler that `TcpWorkerServer` uses as well.
 */
import { BatonError, InFlightSet } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../../request/index.ts'
import { wholeKvSnapshot } from '../../wire/index.ts'
import type { WorkerAnswers, WorkerHandler, WorkerUplink } from '../../wire/index.ts'
import { LocalReply } from './local-reply.ts'
import type { FleetReports } from './plane-reports.ts'

interface LocalWorker {
  readonly handler: WorkerHandler
  readonly replies: InFlightSet<LocalReply>
  answers: WorkerAnswers | null
  isDraining: boolean
}

export class LocalRequestPlane implements RequestPlane {
  readonly #reports: FleetReports
  readonly #workers = new Map<WorkerId, LocalWorker>()

  constructor(reports: FleetReports = {}) {
    this.#reports = reports
  }

  /** Returns where the worker publishes KV events and load, as with a `TcpWorkerServer`. */
  addWorker(workerId: WorkerId, handler: WorkerHandler): WorkerUplink {
    const worker: LocalWorker = {
      handler,
      replies: new InFlightSet(),
      answers: null,
      isDraining: false,
    }
    this.#workers.set(workerId, worker)
    this.tellAll(workerId)
    for (const report of handler.loadSnapshot?.() ?? []) this.#reports.onLoad?.(workerId, report)
    this.#reports.onConnected?.(workerId, 0)
    this.#reports.onCaughtUp?.(workerId)
    return {
      publishKvEvents: (batch: KvEventBatch) => {
        this.#reports.onKvEvents?.(workerId, batch)
        if (this.#reports.wantsKvSnapshot?.(workerId, batch.dpRank) === true) this.tellAll(workerId)
      },
      publishLoad: (report: LoadReport) => this.#reports.onLoad?.(workerId, report),
      flush: () => undefined,
      drain: () => {
        worker.isDraining = true
        this.#reports.onDraining?.(workerId)
      },
    }
  }

  /** Sets the handler of questions to the worker other than requests. */
  setAnswers(workerId: WorkerId, answers: WorkerAnswers): void {
    const worker = this.#workers.get(workerId)
    if (worker !== undefined) worker.answers = answers
  }

  /** Like `commandWorker`, without a connection. */
  async command(workerId: WorkerId, command: Readonly<Record<string, unknown>>): Promise<unknown> {
    const answers = this.#workers.get(workerId)?.answers
    if (answers != null) return await answers.command(command)
    throw new BatonError('request.not_found', `worker ${workerId} answers requests only`)
  }

  /** Sends the events with which a new connection starts, for a router that learns about the worker only now. */
  tellAll(workerId: WorkerId): void {
    const handler = this.#workers.get(workerId)?.handler
    for (const batch of wholeKvSnapshot(handler?.kvSnapshot?.()))
      this.#reports.onKvEvents?.(workerId, batch)
  }

  /** As if its process had died: running replies end with `transport.disconnected` and are dropped at the worker. */
  removeWorker(workerId: WorkerId): void {
    const worker = this.#workers.get(workerId)
    if (!worker) return
    this.#workers.delete(workerId)
    const reason = new BatonError('transport.disconnected', `worker ${workerId} has left`)
    for (const reply of worker.replies.values()) reply.fail(reason)
    this.#reports.onDisconnected?.(workerId, reason)
  }

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const worker = this.#workers.get(workerId)
    if (!worker) {
      const text = `worker ${workerId} is not known here`
      sink.onError(new BatonError('backend.worker_unavailable', text, { data: { workerId } }))
      return { cancel: () => undefined }
    }
    if (worker.isDraining) {
      sink.onError(new BatonError('backend.worker_draining', 'the worker is shutting down'))
      return { cancel: () => undefined }
    }
    const reply = new LocalReply(sink, {
      onEnded: () => worker.replies.delete(reply),
      onFault: (error) => this.#reports.onFault?.(error),
    })
    worker.replies.add(reply)
    reply.handle = worker.handler.serve(copyOf(request), reply)
    return { cancel: (kind) => reply.cancel(kind) }
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#workers.get(workerId)?.handler.releaseKv?.(offerId)
  }

  async close(): Promise<void> {
    for (const workerId of this.#workers.keys()) this.removeWorker(workerId)
    await Promise.resolve()
  }
}

/** What a connection does as well: an engine may write into its request, and another worker may get it later. */
function copyOf(request: GenerateRequest): GenerateRequest {
  return {
    ...request,
    tokenIds: request.tokenIds.slice(),
    sampling: { ...request.sampling },
    stop: { ...request.stop },
    output: { ...request.output },
    eosTokenIds: [...request.eosTokenIds],
  }
}
