/**
 * Requests to workers of the same process: plain calls to the same handler that stands behind `TcpWorkerServer`.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../../request/index.ts'
import type { WorkerHandler, WorkerUplink } from '../../wire/index.ts'
import { LocalReply } from './local-reply.ts'
import type { FleetReports } from './plane-reports.ts'

interface LocalWorker {
  readonly handler: WorkerHandler
  readonly replies: Set<LocalReply>
  isDraining: boolean
}

export class LocalRequestPlane implements RequestPlane {
  readonly #reports: FleetReports
  readonly #workers = new Map<WorkerId, LocalWorker>()

  constructor(reports: FleetReports = {}) {
    this.#reports = reports
  }

  /** The uplink is what the worker publishes to, as it would to a `TcpWorkerServer`. */
  addWorker(workerId: WorkerId, handler: WorkerHandler): WorkerUplink {
    const worker: LocalWorker = { handler, replies: new Set(), isDraining: false }
    this.#workers.set(workerId, worker)
    this.tellAll(workerId)
    for (const report of handler.loadSnapshot?.() ?? []) this.#reports.onLoad?.(workerId, report)
    this.#reports.onConnected?.(workerId)
    return {
      publishKvEvents: (batch: KvEventBatch) => this.#reports.onKvEvents?.(workerId, batch),
      publishLoad: (report: LoadReport) => this.#reports.onLoad?.(workerId, report),
      flush: () => undefined,
      drain: () => {
        worker.isDraining = true
        this.#reports.onDraining?.(workerId)
      },
    }
  }

  /** What a new connection would begin with: for a router that meets the worker (again) only now. */
  tellAll(workerId: WorkerId): void {
    const handler = this.#workers.get(workerId)?.handler
    for (const batch of handler?.kvSnapshot?.() ?? []) this.#reports.onKvEvents?.(workerId, batch)
  }

  /** As if its process had died: live replies end with `transport.disconnected` and are dropped at the worker. */
  removeWorker(workerId: WorkerId): void {
    const worker = this.#workers.get(workerId)
    if (!worker) return
    this.#workers.delete(workerId)
    const reason = new BatonError('transport.disconnected', `worker ${workerId} has left`)
    for (const reply of worker.replies) reply.fail(reason)
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
      sink.onError(new BatonError('backend.worker_draining', 'the worker is leaving'))
      return { cancel: () => undefined }
    }
    const reply = new LocalReply(sink, {
      onEnded: () => worker.replies.delete(reply),
      onFault: (error) => this.#reports.onFault?.(error),
    })
    worker.replies.add(reply)
    reply.handle = worker.handler.serve(request, reply)
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
