/**
 * A request plane that sends forwarded requests to the engine of the chosen worker: directly to an engine of this
 * process, or through the worker to an engine beside it. All other requests go to the plane below.
 *
 * The router books and frees a forwarded request like any other; for the router this is just another plane.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { canForward } from '../../request/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
  WorkerCard,
} from '../../request/index.ts'
import { startForward } from './forward-target.ts'
import type { ForwardTarget } from './forward-target.ts'
import { RemoteReplySink, remoteRequest } from './remote-forward.ts'

const NO_HANDLE: RequestHandle = { cancel: () => undefined }

export class ForwardPlane implements RequestPlane {
  readonly #below: RequestPlane
  readonly #targets = new Map<WorkerId, ForwardTarget>()
  /** Workers of other processes, with their cards. */
  readonly #remote = new Map<WorkerId, WorkerCard>()

  constructor(below: RequestPlane) {
    this.#below = below
  }

  /**
   * Sends requests for the worker to this engine from now on. Returns a function that undoes it; the client stays
   * open.
   */
  addTarget(workerId: WorkerId, target: ForwardTarget): () => void {
    this.#targets.set(workerId, target)
    return () => {
      if (this.#targets.get(workerId) === target) this.#targets.delete(workerId)
    }
  }

  workerJoined(card: WorkerCard): void {
    if (canForward(card)) this.#remote.set(card.workerId, card)
    else this.#remote.delete(card.workerId)
  }

  workerLeft(workerId: WorkerId): void {
    this.#remote.delete(workerId)
  }

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const { forward } = request
    if (forward === undefined) return this.#below.send(workerId, request, sink)
    const target = this.#targets.get(workerId)
    if (target !== undefined) return startForward(target, forward, request, sink)
    const card = this.#remote.get(workerId)
    if (card !== undefined) {
      const through = new RemoteReplySink(forward, sink)
      return this.#below.send(workerId, remoteRequest(request, forward, card), through)
    }
    const text = `worker ${workerId} accepts no forwarded requests`
    sink.onError(new BatonError('backend.worker_unavailable', text, { data: { workerId } }))
    return NO_HANDLE
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#below.releaseKv?.(workerId, offerId)
  }

  close(): Promise<void> {
    return this.#below.close()
  }
}
