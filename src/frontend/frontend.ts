/**
 * The frontend: an HTTP request as a value in, a reply or a stream of text out.
 *
 * Owns: the path of a call through middleware and routes, its id, and the conversion of every error into a
 * reply. It never throws: an error becomes a status with a JSON body.
 */
import { traceparentOf } from '../api/index.ts'
import { BatonError } from '../base/index.ts'
import { fleetView } from './console/fleet-view.ts'
import type { FleetView } from './console/fleet-view.ts'
import { LiveFeed } from './console/live-feed.ts'
import { OtherFrontends } from './console/other-frontends.ts'
import { RequestLog } from './console/request-log.ts'
import { KeyLimits } from './access/key-limits.ts'
import { BatchService } from './batches/batch-service.ts'
import { answeredBy } from './batches/line-answer.ts'
import { decisionHeader } from './endpoints/decision-header.ts'
import { routesOf } from './endpoints/routes.ts'
import type { FrontendObserver, RequestFacts } from './generation/frontend-event.ts'
import { DEFAULT_LIMITS } from './generation/frontend-options.ts'
import type { FrontendOptions } from './generation/frontend-options.ts'
import type { GenerationDeps } from './generation/generation-job.ts'
import { RunningCalls } from './generation/running-calls.ts'
import { HttpCall } from './http/http-call.ts'
import type {
  BodyTaker,
  HttpHead,
  HttpReply,
  HttpRequest,
  OpenRequest,
} from './http/http-exchange.ts'
import { runAfter, runBefore } from './http/middleware.ts'
import type { Middleware } from './http/middleware.ts'
import { createRequestId, echoedRequestId, isRequestId } from './http/request-id.ts'
import { RouteTable } from './http/route-table.ts'
import type { RouteMatch } from './http/route-table.ts'
import type { Route } from './http/route.ts'
import { writeError } from './http/write-error.ts'
import { ModelRegistry } from './models/model-registry.ts'
import { BackgroundResponses } from './state/background-responses.ts'

const NO_REQUEST: RequestFacts = {
  requestId: '',
  model: '',
  endpoint: 'other',
  streamed: false,
  traceparent: undefined,
}

export class Frontend {
  /** A FleetObserver: it has to be told about workers. */
  readonly registry: ModelRegistry
  /** Shared with the other frontends. */
  readonly keyLimits: KeyLimits
  /** What the other frontends of the fleet have served, for readers of this one. */
  readonly others: OtherFrontends
  readonly #deps: GenerationDeps
  readonly #observer: FrontendObserver
  readonly routes: readonly Route[]
  readonly #table: RouteTable
  readonly #middleware: readonly Middleware[]
  readonly #calls: RunningCalls
  readonly #feed: LiveFeed
  #batches: BatchService | null = null

  constructor(options: FrontendOptions) {
    const bounds = { ...DEFAULT_LIMITS, ...options.limits }
    this.registry = new ModelRegistry({ ...options, modelForgetMs: bounds.modelForgetMs })
    const log = new RequestLog(options.clock)
    const { observer } = options
    this.#observer = (event, facts) => {
      log.observe(event, facts)
      observer?.(event, facts)
    }
    this.#middleware = options.middleware ?? []
    const background = new BackgroundResponses(options.clock)
    const deps = { ...options, registry: this.registry, bounds, background }
    this.#deps = deps
    const { beginTrace, clock } = options
    const { requestsMax } = bounds
    this.keyLimits = new KeyLimits(clock, createRequestId(options.random))
    const calls = new RunningCalls({
      limits: this.keyLimits,
      clock,
      observer: this.#observer,
      requestsMax,
      beginTrace,
    })
    this.#calls = calls
    const fleet = (): FleetView => this.fleet()
    this.others = new OtherFrontends({
      clock,
      self: createRequestId(options.random),
      log,
      requestsInFlight: () => this.requestsInFlight,
      decisionsOf: (requestId) => {
        const found = this.registry.decisionsOf(requestId)
        return found && { model: found.model.name, decisions: found.decisions }
      },
    })
    const { others } = this
    this.#feed = new LiveFeed({ clock, log, fleet, onLook: () => others.look() })
    const console = { log, feed: this.#feed, fleet, others, page: options.consolePage }
    this.routes = routesOf({
      deps,
      console,
      batches: () => this.#batches,
      generating: (endpoint, answer) => (http, call) =>
        calls.serve(call, endpoint, (record) => answer(deps, http, record)),
      count: (call) => calls.countOnly(call),
      isDraining: () => calls.isDraining,
    })
    this.#table = new RouteTable(this.routes)
    if (options.batches !== undefined) {
      this.#batches = new BatchService({
        ...options,
        options: options.batches,
        registry: this.registry,
        answer: answeredBy(this.#table, (thrown, call) => this.#shown(thrown, call)),
        keys: () => options.keys?.() ?? null,
        lineBytesMax: bounds.bodyBytesMax,
        onFault: (error) => this.#observer({ kind: 'faulted', error }, NO_REQUEST),
        onGivenUp: (batchId) => {
          const why = 'another process has taken its lease, which was not renewed for 30 s'
          this.#observer({ kind: 'batchGivenUp', batchId, why }, NO_REQUEST)
        },
      })
    }
  }

  get isDraining(): boolean {
    return this.#calls.isDraining
  }

  /** Requests whose reply has not ended, including streams. */
  get requestsInFlight(): number {
    return this.#calls.count
  }

  /** Admits no new requests; running ones continue. `/live` stays 200. */
  drain(): void {
    this.#calls.isDraining = true
    // Readers of events do not delay the shutdown.
    this.#feed.close()
    this.#deps.background.isDraining = true
  }

  /** Running batches are left for another process; resolves when none runs. */
  async stopBatches(): Promise<void> {
    await this.#batches?.runner.stop()
  }

  /** Admits no new requests and ends every running reply: a stream with an error event, others with 503. */
  cutOff(): void {
    this.drain()
    const text = 'the service was shut down before the reply was complete'
    this.#calls.cutOff(new BatonError('backend.worker_draining', text))
  }

  close(): void {
    this.drain()
    void this.stopBatches()
    this.keyLimits.close()
    this.others.close()
    this.registry.close()
  }

  /** The current view of models, workers and their load. */
  fleet(): FleetView {
    return fleetView(this.registry, {
      version: this.#deps.version ?? '0.0.0',
      epochMs: Math.round(this.#deps.clock.epochMs()),
      draining: this.isDraining,
      ...this.others.all(),
    })
  }

  /** Handles a complete request. Never rejects. */
  async handle(http: HttpRequest): Promise<HttpReply> {
    const open = this.open(http)
    return open.reply ?? (await open.answer(http.body))
  }

  /** Handles a request whose body has not been read. Never throws. */
  open(head: HttpHead): OpenRequest {
    const { match, problem } = this.#find(head)
    const requestId = this.#requestIdOf(head)
    const call = new HttpCall(head, requestId, match?.route ?? null, match?.names)
    const early = this.#early(call, problem)
    const route = match?.route
    const takeBody = route?.takeBody
    const open: OpenRequest = {
      bodyBytesMax: bodyBytesMaxOf(route, this.#deps.bounds.bodyBytesMax),
      answer: (body) => this.#answer(call, route, withBody(head, body)),
      refuse: (error) => this.#finished(call, writeError(call.form, error, echoedIdOf(call))),
    }
    // Hardly any request has an early reply, and a spread would cost all others too.
    if (early !== undefined) return { ...open, reply: this.#finished(call, early) }
    if (takeBody === undefined) return open
    return { ...open, takeBody: () => this.#taking(call, takeBody(call)) }
  }

  #taking(call: HttpCall, taker: BodyTaker): BodyTaker {
    return {
      abort: () => taker.abort(),
      take: async (piece) => {
        try {
          await taker.take(piece)
        } catch (thrown) {
          throw this.#shown(thrown, call)
        }
      },
      end: async () => {
        try {
          return this.#finished(call, await taker.end())
        } catch (thrown) {
          return this.#finished(
            call,
            writeError(call.form, this.#shown(thrown, call), echoedIdOf(call)),
          )
        }
      },
    }
  }

  #find(head: HttpHead): { match?: RouteMatch; problem?: unknown } {
    try {
      return { match: this.#table.find(head) }
    } catch (problem) {
      return { problem }
    }
  }

  /** Middleware runs first, so a caller without access learns nothing about the routes. */
  #early(call: HttpCall, problem: unknown): HttpReply | undefined {
    try {
      const reply = runBefore(this.#middleware, call)
      if (reply !== undefined || problem === undefined) return reply
      throw problem
    } catch (thrown) {
      return writeError(call.form, this.#shown(thrown, call), echoedIdOf(call))
    }
  }

  async #answer(call: HttpCall, route: Route | undefined, http: HttpRequest): Promise<HttpReply> {
    let reply: HttpReply
    try {
      if (route === undefined) throw new BatonError('runtime.internal', 'a call without a route')
      reply = await route.handle(http, call)
    } catch (thrown) {
      reply = writeError(call.form, this.#shown(thrown, call), echoedIdOf(call))
    }
    return this.#finished(call, reply)
  }

  #finished(call: HttpCall, reply: HttpReply): HttpReply {
    const { head, requestId } = call
    const echoed = echoedIdOf(call)
    const headers: Record<string, string> = { 'x-request-id': echoed, ...reply.headers }
    headers['x-request-id'] = echoed
    // Clients of the Anthropic API expect the id in this header.
    if (call.form === 'anthropic') headers['request-id'] = echoed
    if (call.caller.mayOperate) {
      Object.assign(headers, decisionHeader(head.headers, this.registry, requestId))
    }
    const { status, body } = reply
    return runAfter(this.#middleware, call, { status, headers, body })
  }

  /** An error that is not a BatonError is internal; its text may contain anything and is only logged. */
  #shown(thrown: unknown, { head, requestId }: HttpCall): BatonError {
    if (thrown instanceof BatonError && thrown.code !== 'runtime.internal') return thrown
    const traceparent = traceparentOf(head.headers)
    const facts = { requestId, model: '', endpoint: 'other', streamed: false, traceparent } as const
    this.#observer({ kind: 'faulted', error: thrown }, facts)
    return new BatonError(
      'runtime.internal',
      `internal error, see the server's log for ${requestId}`,
    )
  }

  /** The client's own id is used if it is a valid name and not in use at this moment. */
  #requestIdOf({ headers }: HttpHead): string {
    const asked = headers['x-dynamo-request-id'] ?? headers['x-request-id']
    if (asked !== undefined && isRequestId(asked) && !this.#calls.has(asked)) return asked
    return createRequestId(this.#deps.random)
  }
}

/** The id that the client is shown. */
function echoedIdOf({ head, requestId }: HttpCall): string {
  return echoedRequestId(head.headers['x-request-id']) ?? requestId
}

/** Assigned field by field: assigning to the result of an object spread calls into the runtime. */
function withBody(head: HttpHead, body: Uint8Array): HttpRequest {
  const { method, path, query, headers, signal, remoteAddress } = head
  return remoteAddress === undefined
    ? { method, path, query, headers, signal, body }
    : { method, path, query, headers, signal, body, remoteAddress }
}

function bodyBytesMaxOf(route: Route | undefined, large: number): number {
  if (route === undefined || route.body === 'none') return 0
  return route.body === 'large' ? large : route.body
}
