/**
 * A pool of workers as a request service: queue if needed, select, book, send, count, free.
 *
 * `acquire` and `Placement.dispatch` are the two halves, for a caller that has to act in between (the prefill
 * router); `send` is both.
 */
import type { BatonError, Clock, WorkerId } from '../../base/index.ts'
import type {
  GenerateRequest,
  Phase,
  ReplySink,
  RequestHandle,
  RequestPlane,
  RequestService,
  RoutingHints,
} from '../../request/index.ts'
import { Admission } from '../queue/admission.ts'
import type { Flow, ToldFlow } from '../queue/flow-meter.ts'
import { mayGoAnywhere } from '../queue/rank-set.ts'
import type { KvRouter } from '../decide/kv-router.ts'
import { legQueued } from './leg-queued.ts'
import { pinOf } from '../decide/pin.ts'
import type { Pin } from '../decide/pin.ts'
import { Placement } from './placement.ts'
import type { PlacementWaiter } from './placement.ts'
import { answerQuery, routedEventOf } from './query-only.ts'
import { QueuedLeg } from './queued-leg.ts'
import type { PoolStatus } from '../ranks/router-status.ts'
import type { Refusal, Selection, SelectionQuery } from '../decide/selection.ts'
import { SessionAffinity, sessionKeyOf } from './session-affinity.ts'

export interface WorkerRouterOptions {
  readonly router: KvRouter
  readonly plane: RequestPlane
  readonly clock: Clock
  /** The pool of the following leg: requests are queued here while no worker there has capacity. */
  readonly next?: KvRouter
  /** A session was bound, used again after a while, or (null) unbound; for other frontends. */
  readonly onSession?: (sessionId: string, target: Pin | null, idleMs: number) => void
  /** How many requests have arrived, were sent and have ended; for other frontends. */
  readonly onFlow?: (flow: Flow) => void
}

const NO_HANDLE: RequestHandle = { cancel: () => undefined }

export class WorkerRouter implements RequestService {
  readonly router: KvRouter
  readonly #plane: RequestPlane
  readonly #clock: Clock
  readonly #admission: Admission
  readonly #sessions: SessionAffinity

  constructor(options: WorkerRouterOptions) {
    const { router, plane, clock } = options
    this.router = router
    this.#plane = plane
    this.#clock = clock
    this.#admission = new Admission({
      router,
      clock,
      next: options.next ?? null,
      tellFlow: options.onFlow,
    })
    const { onSession } = options
    this.#sessions = new SessionAffinity(router.config.session, onSession)
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
    return this.serve(request, 'aggregated', sink)
  }

  /** Places and dispatches. A query-only request is answered with worker ids and not sent. */
  serve(request: GenerateRequest, phase: Phase, sink: ReplySink, note?: string): RequestHandle {
    if (request.routing.queryOnly === true) {
      this.#answer(request, phase, sink)
      return NO_HANDLE
    }
    sink.onPhase?.(legQueued(request, phase, this.#clock.nowMs()))
    const queued = new QueuedLeg(request, sink)
    return queued.waitsWith(this.acquire(request, phase, queued, { note }))
  }

  /**
   * Selects and books, possibly after queueing. Null: the waiter was called already; otherwise the returned function
   * stops the wait, and has no effect once the waiter was called.
   */
  acquire(
    request: GenerateRequest,
    phase: Phase,
    waiter: PlacementWaiter,
    more: Pick<SelectionQuery, 'note' | 'next'> = {},
  ): (() => void) | null {
    const query = this.#queryOf(request, phase, more)
    let isCalled = false
    const leave = this.#admission.enter(query, {
      onGo: (queuedMs) => {
        isCalled = true
        const startMs = this.#clock.nowMs()
        const answer = this.#select({ ...query, queuedMs })
        const decisionMs = this.#clock.nowMs() - startMs
        if (answer.kind === 'refused') waiter.onRefused(answer.error)
        else waiter.onPlaced(this.#place(answer, request, { queuedMs, decisionMs }))
      },
      onRefused: (error) => {
        isCalled = true
        waiter.onRefused(error)
      },
    })
    // It refers to the place in the queue, which is not needed while the request runs.
    return isCalled ? null : leave
  }

  /** The decision about a later leg here; undefined if nothing restricts its workers. */
  restricted(request: GenerateRequest, phase: Phase): SelectionQuery | undefined {
    const query = this.#queryOf(request, phase)
    return mayGoAnywhere(this.router, query) ? undefined : query
  }

  /** See `Admission.refusalAtOnce`. */
  refusalAtOnce(routing: RoutingHints): BatonError | null {
    return this.#admission.refusalAtOnce(routing)
  }

  /** The current choice; nothing is booked, bound or recorded. A binding that would be dropped does not count. */
  peek(request: GenerateRequest, phase: Phase): Selection | Refusal {
    const query = this.#queryOf(request, phase)
    const answer = this.router.peek(query)
    return endsBinding(query, answer) ? this.router.peek({ ...query, affinity: null }) : answer
  }

  /** KV that a prefill worker of the pool has offered will not be fetched. */
  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#plane.releaseKv?.(workerId, offerId)
  }

  /** Prompt tokens of the requests queued here. */
  get waitingPromptTokens(): number {
    return this.#admission.waiting.promptTokens
  }

  /** True while requests are queued here, or sent from here and followed by a decode leg. */
  get hasWaiting(): boolean {
    return this.#admission.waiting.requests > 0 || this.router.capacity.underWay.running > 0
  }

  status(): PoolStatus {
    return this.router.status(this.#admission.waiting)
  }

  learnSession(sessionId: string, target: Pin | null, idleMs: number): void {
    this.#sessions.learn(sessionId, target, idleMs, this.#clock.nowMs())
  }

  learnFlow(flow: ToldFlow): void {
    this.#admission.learnFlow(flow)
  }

  tellSessions(): void {
    this.#sessions.tellAll(this.#clock.nowMs())
  }

  get sessionCount(): number {
    return this.#sessions.count(this.#clock.nowMs())
  }

  /** Refuses all queued requests. */
  close(): void {
    this.#admission.close()
  }

  #queryOf(
    request: GenerateRequest,
    phase: Phase,
    more: Pick<SelectionQuery, 'note' | 'next'> = {},
  ): SelectionQuery {
    const query = { request, phase, queuedMs: 0, ...more }
    const target = this.#sessions.targetOf(request.routing, this.#clock.nowMs())
    if (target === null) return query
    const pin = pinOf(request.routing, phase)
    // A worker named by the request takes precedence; the binding may still supply its rank.
    if (pin !== null && (pin.workerId !== target.workerId || pin.dpRank !== null)) return query
    const { soft } = this.router.config.session
    return { ...query, affinity: { target, soft: soft && pin === null } }
  }

  /** If the bound worker can never take the request, the binding is dropped and a worker is chosen again. */
  #select(query: SelectionQuery): Selection | Refusal {
    const answer = this.router.select(query)
    if (!endsBinding(query, answer)) return answer
    const session = sessionKeyOf(query.request.routing)
    if (session !== undefined) this.#sessions.drop(session)
    return this.router.select({ ...query, affinity: null })
  }

  #place(
    selection: Selection,
    request: GenerateRequest,
    times: { readonly queuedMs: number; readonly decisionMs: number },
  ): Placement {
    const { workerId, dpRank } = selection
    const clock = this.#clock
    const lease = this.#sessions.lease(request.routing, { workerId, dpRank }, clock.nowMs())
    return new Placement({
      router: this.router,
      plane: this.#plane,
      clock,
      selection,
      ...times,
      queueDepth: this.#admission.waiting.requests,
      booking: this.router.book(selection),
      ...(lease === null
        ? {}
        : { onEnd: (error: BatonError | null) => lease.end(error !== null, clock.nowMs()) }),
    })
  }

  #answer(request: GenerateRequest, phase: Phase, sink: ReplySink): void {
    const answer = this.peek(request, phase)
    if (answer.kind === 'refused') sink.onError(answer.error)
    else {
      sink.onPhase?.(routedEventOf(answer, this.#clock.nowMs()))
      sink.onChunk(answerQuery([answer], request))
    }
  }
}

/** True when the worker to which the session is bound can never take the request. */
function endsBinding({ affinity }: SelectionQuery, answer: Selection | Refusal): boolean {
  return (
    answer.kind === 'refused' && !answer.overloaded && affinity !== undefined && affinity !== null
  )
}
