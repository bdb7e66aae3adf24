/**
 * The life of a forwarded call, from the router to the client's socket, with exactly one end.
 *
 * waiting ── head of the answer ──▶ running ── end ──▶ done
 * ├── an error before the first byte: one more attempt, on another engine if there is one
 * └── error, client gone, deadline ─────────────────▶ done
 *
 * Nothing is resumed after the first byte, because the tokens are not known here. The client gets an error
 * event.
 */
import { freeOwned, loggedMessage, parseWorkerId } from '../../base/index.ts'
import type { BatonError, Clock, WorkerId } from '../../base/index.ts'
import { engineAnswerOf, isOfHandOver, isShown, usageOf } from '../../request/index.ts'
import type {
  Chunk,
  EngineAnswer,
  ForwardedRequest,
  ForwardFlow,
  ForwardHead,
  ForwardSink,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
  RequestService,
  Usage,
} from '../../request/index.ts'
import type { CallRecord } from '../generation/call-record.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { clientGone, clientStalled, inStage } from '../http/stage-error.ts'
import type { AnsweredModel } from './answered-model.ts'
import { UNBUFFERED } from '../reply/event-stream.ts'
import { ForwardStream } from './forward-stream.ts'

interface ForwardRunOptions {
  readonly service: RequestService
  readonly clock: Clock
  readonly record: CallRecord
  readonly http: HttpRequest
  readonly request: (forward: ForwardedRequest) => GenerateRequest
  readonly forward: Omit<ForwardedRequest, 'sink'>
  /** Milliseconds for which a client may read nothing. */
  readonly stalledMs: number
  /** Absent: the engine uses the client's name of the model. */
  readonly answeredModel?: AnsweredModel
}

export class ForwardRun implements ReplySink, ForwardSink {
  readonly #options: ForwardRunOptions
  #resolve: (reply: HttpReply) => void = () => {}
  #reject: (error: BatonError) => void = () => {}
  /** The request, with this run as the sink of the answer. */
  readonly #request: GenerateRequest
  readonly #promptTokens: number
  #handle: RequestHandle | null = null
  #attempt = 0
  #workerId: WorkerId | undefined
  #excluded: readonly WorkerId[] = []
  #firstError: BatonError | null = null
  #status = 0
  #isEvents = false
  #pieces = 0
  #stream: ForwardStream | null = null
  /** The only worker so far computes the whole request. */
  #isOneLeg = false
  #isSent = false
  #isDecided = false
  #isDone = false
  readonly #onAbort = (): void =>
    this.#giveUp(clientGone(this.#isDecided ? 'decode' : 'route', this.#options.http.signal))

  constructor(options: ForwardRunOptions) {
    this.#options = options
    const { forward, request } = options
    const { method, path, headers, body, prefillBody, errorEvent } = forward
    // Assigned field by field: assigning to the result of an object spread calls into the runtime.
    this.#request = request({
      method,
      path,
      headers,
      body,
      sink: this,
      errorEvent,
      ...(prefillBody === undefined ? {} : { prefillBody }),
    })
    this.#promptTokens = this.#request.tokenIds.length
  }

  /** Rejects with the error that becomes the status. Called once. */
  answer(): Promise<HttpReply> {
    const { http, record } = this.#options
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      if (http.signal.aborted) {
        this.#onAbort()
        return
      }
      http.signal.addEventListener('abort', this.#onAbort)
      record.reply = this
      this.#excluded = this.#request.routing.excludedWorkerIds ?? []
      this.#send()
    })
  }

  onSent(): void {
    this.#isSent = true
  }

  onWhole(head: ForwardHead, body: string | Uint8Array): void {
    if (this.#isDone) return
    this.#status = head.status
    this.#options.record.firstToken()
    const shown = this.#options.answeredModel?.inWhole(body) ?? body
    this.#decide({ status: head.status, headers: head.headers, body: shown })
  }

  onHead(head: ForwardHead, isEvents: boolean, flow: ForwardFlow): void {
    if (this.#isDone) return
    const { clock, stalledMs } = this.#options
    this.#status = head.status
    this.#isEvents = isEvents
    this.#stream = new ForwardStream({
      flow,
      clock,
      stalledMs,
      onStalled: () => this.#giveUp(clientStalled(stalledMs)),
    })
    const headers = isEvents ? Object.assign({}, head.headers, UNBUFFERED) : head.headers
    this.#decide({ status: head.status, headers, body: this.#stream })
  }

  onBytes(text: string, isAlone?: boolean): void {
    if (this.#isDone) return
    const { answeredModel } = this.#options
    // Only event streams arrive in whole events; other bodies may be cut anywhere.
    const shown = answeredModel !== undefined && this.#isEvents ? answeredModel.inText(text) : text
    this.#stream?.write(shown, isAlone)
  }

  /** Called for every piece of the answer with content. */
  onToken(): void {
    this.#pieces += 1
    this.#options.record.firstToken()
  }

  onChunk({ finish, usage }: Chunk): void {
    if (finish === undefined || this.#isDone) return
    if (finish === 'cancelled') this.#end(clientGone('decode', this.#options.http.signal), null)
    else this.#end(null, usage ?? this.#estimate)
  }

  onPhase(event: PhaseEvent): void {
    // The router itself handles a failed prefill.
    if (event.kind === 'routed') {
      if (event.phase !== 'prefill') this.#workerId = event.workerId
      this.#isOneLeg = event.phase === 'aggregated'
    }
    this.#options.record.tell(event)
  }

  onError(error: BatonError): void {
    if (this.#isDone) return
    if (!this.#isDecided && this.#mayTryAgain(error)) {
      this.#tryElsewhere(error)
      return
    }
    if (this.#isNobodyElse) {
      // It is the only engine: it may just have closed an idle connection, or the KV did not arrive. It is tried
      // again, with KV of a new prefill leg.
      this.#excluded = this.#request.routing.excludedWorkerIds ?? []
      this.#send()
      return
    }
    // There is no other engine, and the first engine's error is more informative.
    this.#fail(this.#firstError ?? error)
  }

  /** True when the second attempt could not be placed. */
  get #isNobodyElse(): boolean {
    const error = this.#firstError
    if (error === null || this.#attempt !== 2 || this.#workerId !== undefined) return false
    return error.code === 'transport.disconnected' || isOfHandOver(error)
  }

  /**
   * For a stream whose engine reports no usage: routed prompt tokens and received pieces. Key limits use it.
   */
  get #estimate(): Usage | null {
    return this.#isEvents ? usageOf(this.#promptTokens, this.#pieces) : null
  }

  #mayTryAgain(error: BatonError): boolean {
    if (this.#firstError !== null) return false
    const { row, code } = error
    const mayFitElsewhere = code === 'capacity.worker_overloaded'
    const isRepeatable = row.migratable || mayFitElsewhere || isOfHandOver(error)
    return isRepeatable && this.#workerId !== undefined
  }

  #tryElsewhere(error: BatonError): void {
    const { clock, record } = this.#options
    const lost = lostWorker(error) ?? this.#workerId
    this.#firstError = error
    record.tell({
      kind: 'migrated',
      request: 'new_request',
      attempt: this.#attempt,
      errorCode: error.code,
      errorMessage: loggedMessage(error),
      resumedTokens: 0,
      ...(lost === undefined ? {} : { failedWorkerId: lost }),
      atMs: clock.nowMs(),
    })
    if (lost !== undefined) this.#excluded = [...this.#excluded, lost]
    this.#send()
  }

  #send(): void {
    this.#workerId = undefined
    this.#attempt += 1
    const attempt = this.#attempt
    const placed = this.#request
    const excludedWorkerIds = this.#excluded
    const request =
      excludedWorkerIds.length === 0
        ? placed
        : { ...placed, routing: { ...placed.routing, excludedWorkerIds } }
    const handle = this.#options.service.send(request, this)
    // The attempt may have failed inside `send`; then a later attempt has set the handle already.
    if (this.#attempt !== attempt) return
    this.#handle = handle
    if (this.#isDone) handle.cancel('kill')
  }

  #decide(reply: HttpReply): void {
    this.#isDecided = true
    if (this.#isSent && this.#isOneLeg && this.#attempt === 1) this.#freeMemory()
    this.#resolve(reply)
  }

  /** There is no further attempt, and the bytes have left this process. */
  #freeMemory(): void {
    freeOwned(this.#options.http.body.buffer)
    freeOwned(this.#request.tokenIds.buffer)
    const { forward } = this.#request
    if (forward !== undefined) freeOwned(forward.body.buffer)
  }

  /** Ends the reply for a reason on the server's side. */
  cutOff(error: BatonError): void {
    this.#giveUp(error)
  }

  /** Ends the call from this side. */
  #giveUp(error: BatonError): void {
    if (this.#isDone) return
    this.#fail(error)
    this.#handle?.cancel('kill')
  }

  #fail(error: BatonError): void {
    const answer = this.#isDecided ? null : engineAnswerOf(error)
    if (answer !== null) this.#refuse(answer)
    const staged = inStage(error, this.#isDecided ? 'decode' : 'route')
    if (this.#isDecided) this.#breakOff(staged)
    // Output that was generated for a disconnected client counts all the same.
    this.#end(staged, this.#pieces > 0 ? this.#estimate : null)
  }

  /** The engine's own words. */
  #refuse({ status, headers, body }: EngineAnswer): void {
    this.#status = status
    this.#decide({ status, headers, body: Uint8Array.from(body, byteOf) })
  }

  #breakOff(error: BatonError): void {
    if (isShown(error)) return
    if (this.#isEvents && !this.#options.http.signal.aborted) {
      this.#stream?.write(this.#options.forward.errorEvent(error))
      this.#stream?.end()
    } else this.#stream?.breakOff()
  }

  /** The only way to the end state. */
  #end(error: BatonError | null, usage: Usage | null): void {
    const { http, record } = this.#options
    this.#isDone = true
    http.signal.removeEventListener('abort', this.#onAbort)
    record.reply = null
    const status = this.#isDecided ? this.#status : (error?.row.httpStatus ?? this.#status)
    record.ended({ status, error, usage, choices: 1 })
    if (!this.#isDecided && error !== null) this.#reject(error)
    this.#stream?.end()
  }
}

function lostWorker(error: BatonError): WorkerId | undefined {
  const { workerId } = error.data
  return typeof workerId === 'string' ? (parseWorkerId(workerId) ?? undefined) : undefined
}

const byteOf = (character: string): number => character.charCodeAt(0)
