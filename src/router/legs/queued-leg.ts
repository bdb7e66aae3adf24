/**
 * A leg that may have to wait for its place, and its handle until then. A stream that runs holds only its leg.
 */
import type { BatonError } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { GenerateRequest, ReplySink, RequestHandle } from '../../request/index.ts'
import type { Leg } from './leg.ts'
import type { Placement, PlacementWaiter } from './placement.ts'

export class QueuedLeg implements PlacementWaiter, RequestHandle {
  readonly #request: GenerateRequest
  readonly #sink: ReplySink
  #leg: Leg | null = null
  #stopWaiting: (() => void) | null = null
  #ended = false

  constructor(request: GenerateRequest, sink: ReplySink) {
    this.#request = request
    this.#sink = sink
  }

  /** `stopWaiting`: as returned by `WorkerRouter.acquire`. Returns the handle of the leg. */
  waitsWith(stopWaiting: (() => void) | null): RequestHandle {
    this.#stopWaiting = stopWaiting
    return this.#leg ?? this
  }

  onPlaced(placement: Placement): void {
    this.#stopWaiting = null
    this.#leg = placement.dispatch(this.#request, this.#sink)
  }

  onRefused(error: BatonError): void {
    this.#ended = true
    this.#sink.onError(error)
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#leg !== null) this.#leg.cancel(kind)
    else if (!this.#ended) {
      this.#ended = true
      this.#stopWaiting?.()
      this.#sink.onChunk(finishChunk('cancelled'))
    }
  }
}
