/**
 * An HTTP/1.1 client for one upstream server: keep-alive connections, deadlines, a limit of concurrent calls, a
 * circuit breaker, and one retry when a connection ended before the first byte of an answer.
 */
import { BatonError, InFlightSet } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { Breaker } from './breaker.ts'
import type { BreakerOptions } from './breaker.ts'
import type { ResponseHead } from './response-parser.ts'
import { ConnectionWatch } from './connection-watch.ts'
import type { Lane } from './lane.ts'
import { Call } from './upstream-call.ts'
import type { CallOwner, UpstreamCall, UpstreamRequest, UpstreamSink } from './upstream-call.ts'
import { UpstreamConnection } from './upstream-connection.ts'
import type { ConnectionDeadlines } from './upstream-connection.ts'
import { requestHead } from './request-head.ts'
import type { UpstreamUrl } from './upstream-url.ts'

export interface UpstreamClientOptions {
  readonly url: UpstreamUrl
  readonly clock: Clock
  /** Sent with every request, for example an API key. */
  readonly headers?: Readonly<Record<string, string>>
  readonly deadlines?: Partial<ConnectionDeadlines>
  /** Most concurrent calls; further ones are refused. */
  readonly callsMax?: number
  readonly breaker?: BreakerOptions
}

export interface UpstreamCounters {
  readonly calls: number
  readonly inFlight: number
  readonly failures: number
  /** Calls that were sent again because the connection ended before the first byte. */
  readonly retries: number
  readonly refused: number
}

/** llama-server and uvicorn close idle connections after 5 s. */
const IDLE_CONNECTION_MS = 4000
const IDLE_CONNECTIONS_MAX = 64
const DEFAULT_DEADLINES: ConnectionDeadlines = Object.freeze({
  connectMs: 5_000,
  headMs: 300_000,
  idleMs: 120_000,
  unconfirmedMs: 15_000,
})
const DEFAULT_CALLS_MAX = 1024

export class UpstreamClient {
  readonly url: UpstreamUrl
  readonly breaker: Breaker
  readonly #options: UpstreamClientOptions
  readonly #deadlines: ConnectionDeadlines
  readonly #idle: UpstreamConnection[] = []
  /** Connections that wait for the next call of their lane. */
  readonly #inLanes = new Set<UpstreamConnection>()
  readonly #watch: ConnectionWatch
  readonly #calls = new InFlightSet<Call>()
  /** What calls report to this client. */
  readonly #owner: CallOwner = {
    answered: (head, isRun) => this.#answered(head, isRun),
    heardPiece: () => {
      this.#heard += 1
    },
    ended: (call, connection, isReusable) => this.#ended(call, connection, isReusable),
    aborted: (call) => this.#aborted(call),
    lost: (call, error, hasBytes) => this.#lost(call, error, hasBytes),
  }
  #isClosed = false
  #heard = 0
  #runs = 0
  #accessRefusals = 0
  #started = 0
  #failures = 0
  #retries = 0
  #refused = 0

  constructor(options: UpstreamClientOptions) {
    this.url = options.url
    this.#options = options
    this.#deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines }
    this.#watch = new ConnectionWatch(this.#deadlines)
    this.breaker = new Breaker(options.clock, options.breaker)
  }

  get counters(): UpstreamCounters {
    return {
      calls: this.#started,
      inFlight: this.#calls.size,
      failures: this.#failures,
      retries: this.#retries,
      refused: this.#refused,
    }
  }

  /**
   * Increases with every piece of an answer to a request with a body (generation); questions about the server have
   * none.
   */
  get heard(): number {
    return this.#heard
  }

  /** Requests with a body whose answer has not ended. */
  get runs(): number {
    return this.#runs
  }

  /** Never throws: errors go to the sink, possibly before this call returns. */
  send(request: UpstreamRequest, sink: UpstreamSink): UpstreamCall {
    const refusal = this.#refusal()
    if (refusal !== null) {
      this.#refused += 1
      sink.onError(refusal)
      return NO_CALL
    }
    let head: string
    try {
      head = requestHead(this.url, request, this.#options.headers)
    } catch (thrown) {
      this.breaker.gaveUp()
      sink.onError(BatonError.from(thrown))
      return NO_CALL
    }
    this.#started += 1
    const call = new Call(this.#owner, { request, head }, sink)
    this.#calls.add(call)
    if (call.isRun) this.#runs += 1
    if (request.lane?.isGone === true) {
      this.#lost(call, laneGone(), false)
      return NO_CALL
    }
    this.#dispatch(call, request.lane === undefined ? this.#idle.pop() : this.#takeOf(request.lane))
    return call
  }

  /** Answers to requests with a body that refuse Baton's credentials. */
  get accessRefusals(): number {
    return this.#accessRefusals
  }

  #answered({ status }: ResponseHead, isRun: boolean): void {
    if (isRun && (status === 401 || status === 403)) this.#accessRefusals += 1
    // A gateway's report that its server is unavailable; every other answer counts as an answer.
    const isAway = status === 502 || status === 503 || status === 504
    if (!isAway) this.breaker.succeeded()
    else if (isRun) this.#failed()
    // A server that loads its model gives this status to a question, and others give it for unknown routes.
    else this.breaker.gaveUp()
  }

  #ended(call: Call, connection: UpstreamConnection, isReusable: boolean): void {
    this.#forget(call)
    const { lane, reuse } = call.sent.request
    const isKept = isReusable && reuse !== false && !this.#isClosed
    if (!isKept) connection.destroy()
    else if (lane === undefined) this.#park(connection)
    else this.#parkIn(lane, connection)
    if (!isKept) lane?.answered(null)
  }

  #aborted(call: Call): void {
    this.#forget(call)
    this.breaker.gaveUp()
  }

  /** Ends every call with `transport.disconnected`; idempotent. */
  close(): void {
    this.#isClosed = true
    this.#watch.close()
    for (const connection of [...this.#idle.splice(0), ...this.#inLanes]) connection.destroy()
    this.#inLanes.clear()
    for (const call of this.#calls.values()) {
      this.#forget(call)
      call.fail(
        new BatonError('transport.disconnected', 'the connection to the upstream was closed'),
      )
    }
  }

  #refusal(): BatonError | null {
    const callsMax = this.#options.callsMax ?? DEFAULT_CALLS_MAX
    if (this.#isClosed) return new BatonError('backend.engine_shutdown', 'the upstream was closed')
    if (this.#calls.size >= callsMax) {
      return new BatonError(
        'capacity.worker_overloaded',
        `too many requests are in flight at the upstream: at most ${callsMax} are allowed`,
        { data: { limit: callsMax } },
      )
    }
    if (this.breaker.mayTry()) return null
    return new BatonError(
      'transport.cannot_connect',
      'the upstream has failed repeatedly and is not asked for a while',
      {
        data: { stage: 'upstream' },
      },
    )
  }

  #dispatch(call: Call, kept: UpstreamConnection | undefined): void {
    const { request, head } = call.sent
    const deadlines =
      request.deadlines === undefined
        ? this.#deadlines
        : { ...this.#deadlines, ...request.deadlines }
    const connection = kept ?? new UpstreamConnection(this.url, deadlines)
    if (kept === undefined) this.#watch.add(connection)
    call.connection = connection
    const hasBody = request.method !== 'HEAD'
    connection.send(call, head, request.body, { hasBody, deadlines })
  }

  #lost(call: Call, error: BatonError, hasBytes: boolean): void {
    const isCutOff = error.code === 'transport.disconnected' && !hasBytes
    if (isCutOff && !this.#isClosed && call.mayRepeat) {
      call.wasRetried = true
      this.#retries += 1
      // Not on another idle connection: all of them may have ended together with the first one.
      this.#dispatch(call, undefined)
      return
    }
    this.#forget(call)
    this.#failed()
    call.fail(error)
  }

  #forget(call: Call): void {
    this.#calls.delete(call)
    if (call.isRun) this.#runs -= 1
  }

  #failed(): void {
    this.#failures += 1
    this.breaker.failed()
  }

  #park(connection: UpstreamConnection): void {
    if (this.#idle.length >= IDLE_CONNECTIONS_MAX) {
      connection.destroy()
      return
    }
    this.#idle.push(connection)
    connection.park(IDLE_CONNECTION_MS, () => {
      const at = this.#idle.indexOf(connection)
      if (at >= 0) this.#idle.splice(at, 1)
    })
  }

  #parkIn(lane: Lane, connection: UpstreamConnection): void {
    this.#inLanes.add(connection)
    lane.answered(connection)
    connection.park(IDLE_CONNECTION_MS, () => {
      this.#inLanes.delete(connection)
      lane.gone()
    })
  }

  #takeOf(lane: Lane): UpstreamConnection | undefined {
    const connection = lane.take()
    if (connection === null) return undefined
    this.#inLanes.delete(connection)
    return connection
  }
}

function laneGone(): BatonError {
  return new BatonError(
    'transport.disconnected',
    'the upstream closed the connection before its response',
    { data: { stage: 'upstream' } },
  )
}

const NO_CALL: UpstreamCall = {
  isSent: false,
  abort: () => undefined,
  pause: () => undefined,
  resume: () => undefined,
}
