/**
 * A pool of workers as a request service: select, book, maybe wait, send, count, free.
 *
 * `acquire` and `Placement.dispatch` are the two halves, for whoever has something to do in between (the prefill
 * router); `send` is both.
 */
import type { BatonError, Clock } from '../base/index.ts'
import { finishChunk } from '../request/index.ts'
import type {
  GenerateRequest,
  Phase,
  ReplySink,
  RequestHandle,
  RequestPlane,
  RequestService,
} from '../request/index.ts'
import type { KvRouter } from './kv-router.ts'
import { Leg } from './leg.ts'
import { Placement } from './placement.ts'
import type { PoolStatus } from './router-status.ts'
import type { Refusal, Selection } from './selection.ts'

export interface WorkerRouterOptions {
  readonly router: KvRouter
  readonly plane: RequestPlane
  readonly clock: Clock
}

/** Called exactly once, at once or later, unless the wait is cancelled first. */
export interface PlacementWaiter {
  onPlaced(placement: Placement): void
  onRefused(error: BatonError): void
}

export class WorkerRouter implements RequestService {
  readonly router: KvRouter
  readonly #plane: RequestPlane
  readonly #clock: Clock

  constructor(options: WorkerRouterOptions) {
    this.router = options.router
    this.#plane = options.plane
    this.#clock = options.clock
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
    return this.serve(request, 'aggregated', sink)
  }

  /** Both halves: place and dispatch. */
  serve(request: GenerateRequest, phase: Phase, sink: ReplySink, note?: string): RequestHandle {
    let leg: Leg | null = null
    let ended = false
    const stopWaiting = this.acquire(
      request,
      phase,
      {
        onPlaced: (placement) => {
          leg = placement.dispatch(request, sink)
        },
        onRefused: (error) => {
          ended = true
          sink.onError(error)
        },
      },
      note,
    )
    return {
      cancel: (kind) => {
        if (leg !== null) leg.cancel(kind)
        else if (!ended) {
          ended = true
          stopWaiting()
          sink.onChunk(finishChunk('cancelled'))
        }
      },
    }
  }

  /** Selects and books. Returns how to stop waiting; of no effect once the waiter was called. */
  acquire(
    request: GenerateRequest,
    phase: Phase,
    waiter: PlacementWaiter,
    note?: string,
  ): () => void {
    const answer = this.router.select({
      request,
      phase,
      queuedMs: 0,
      ...(note === undefined ? {} : { note }),
    })
    if (answer.kind === 'refused') waiter.onRefused(answer.error)
    else waiter.onPlaced(this.#place(answer, 0))
    return () => undefined
  }

  /** What would be chosen now; nothing is booked or recorded. */
  peek(request: GenerateRequest, phase: Phase): Selection | Refusal {
    return this.router.peek({ request, phase, queuedMs: 0 })
  }

  status(): PoolStatus {
    return this.router.status({ requests: 0, promptTokens: 0 })
  }

  /** Ends what waits. */
  close(): void {}

  #place(selection: Selection, queuedMs: number): Placement {
    return new Placement({
      router: this.router,
      plane: this.#plane,
      clock: this.#clock,
      selection,
      queuedMs,
      booking: this.router.book(selection),
    })
  }
}
