/**
 * One request that is forwarded unchanged to a foreign engine, and its answer.
 *
 * Owns: whether an answer is a stream or whole, what of it clients may see, and what is counted. The bytes of a
 * successful answer are never rewritten.
 */
import type { BatonError } from '../../base/index.ts'
import { asShown, finishChunk, isOfHandOver, withEngineAnswer } from '../../request/index.ts'
import type {
  ForwardedRequest,
  ForwardHead,
  ReplySink,
  RequestHandle,
  Usage,
} from '../../request/index.ts'
import type { ResponseHead } from '../client/response-parser.ts'
import type { UpstreamCall, UpstreamRequest, UpstreamSink } from '../client/upstream-call.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { errorOfResponse, pageInstead, redirected } from '../dialects/upstream-error.ts'
import type { HandOverCounts } from '../watch/hand-over-counts.ts'
import { EventCutter } from './event-cutter.ts'
import { dataOf, reportsFailure } from './reported-failure.ts'
import { hiddenFailure, hiddenFault, hiddenRefusal, shownHeaders } from './shown-answer.ts'
import { UsageOfEvents, usageOfWhole, UsageTail } from './usage-tail.ts'

/** A longer answer is passed on in pieces. */
const WHOLE_BYTES_MAX = 1024 * 1024
/** A longer error text is not searched for internals. */
const REFUSAL_BYTES_MAX = 64 * 1024

/** How long an unwanted KV transfer may take to be reported to the server. */
const ARRIVAL_MS = 5000

type State = 'waiting' | 'collecting' | 'events' | 'bytes' | 'ended'

export class ForwardCall implements UpstreamSink, RequestHandle {
  readonly #forward: ForwardedRequest
  readonly #sink: ReplySink
  #usage: UsageOfEvents | UsageTail | null = null
  /** True: the engine was given transferred KV for this request. */
  hasHandOver = false
  /** Set when the engine fetches or is sent the KV of a prefill server. */
  handOvers: HandOverCounts | null = null
  /** KV waits at another server, so the request must be sent even when the answer is no longer wanted. */
  mustArrive = false
  #arrival: NodeJS.Timeout | null = null
  #call: UpstreamCall | null = null
  #state: State = 'waiting'
  #head: ForwardHead | null = null
  #whole = ''
  /** True: the current text is sent together with the end. */
  #isLast = false
  #cutter: EventCutter | null = null
  /** The error event that the client has read. */
  #failure: BatonError | null = null

  constructor(forward: ForwardedRequest, sink: ReplySink) {
    this.#forward = forward
    this.#sink = sink
  }

  start(client: UpstreamClient, request: UpstreamRequest): this {
    const call = client.send(request, this)
    this.#call = call
    if (this.#state === 'ended' && this.#arrival === null) call.abort()
    return this
  }

  /** The answer is no longer wanted: the connection is closed, which tells engines. */
  cancel(kind: 'stop' | 'kill'): void {
    if (this.#state === 'ended') return
    if (this.mustArrive && this.#state === 'waiting') {
      this.#arrival = setTimeout(() => this.#letGo(), ARRIVAL_MS)
    }
    this.#state = 'ended'
    if (this.#arrival === null) this.#call?.abort()
    if (kind === 'stop') this.#sink.onChunk(finishChunk('cancelled'))
  }

  onHead({ status, headers }: ResponseHead): void {
    this.#arrived()
    if (this.#state === 'ended' || status < 200) return
    this.#head = { status, headers: shownHeaders(headers) }
    if (status >= 300) {
      this.#state = 'collecting'
      return
    }
    const type = headers.get('content-type')?.trimStart().toLowerCase() ?? ''
    // A compressed body (gzip) has no recognisable events.
    const isCoded = (headers.get('content-encoding') ?? 'identity') !== 'identity'
    const isEvents = type.startsWith('text/event-stream') && !isCoded
    const length = Number(headers.get('content-length') ?? 0)
    if (!isEvents && length <= WHOLE_BYTES_MAX) this.#state = 'collecting'
    else this.#begin(isEvents)
  }

  /** All data arrives as text. */
  onBody(): void {}

  onText(text: string, isLast: boolean): void {
    this.#isLast = isLast
    switch (this.#state) {
      case 'events':
        this.#cutter?.push(text)
        return
      case 'bytes':
        this.#pass(text)
        return
      case 'collecting':
        this.#collect(text)
        return
      case 'waiting':
      case 'ended':
    }
  }

  onEnd(): void {
    if (this.#state === 'ended') return
    if (this.#state === 'collecting') this.#endWhole()
    else {
      this.#isLast = true
      this.#cutter?.end()
      if (this.#failure === null) this.#finish(this.#usage?.usage() ?? null)
      else this.onError(this.#failure)
    }
  }

  onError(error: BatonError): void {
    this.#arrived()
    if (this.#state === 'ended') return
    this.#state = 'ended'
    this.#sink.onError(this.#failure ?? error)
  }

  /** The engine has received the request, so KV that waits for it elsewhere is released. */
  #arrived(): void {
    if (this.#arrival !== null) this.#letGo()
  }

  #letGo(): void {
    if (this.#arrival !== null) clearTimeout(this.#arrival)
    this.#arrival = null
    this.#call?.abort()
  }

  #begin(isEvents: boolean): void {
    const { sink } = this.#forward
    this.#state = isEvents ? 'events' : 'bytes'
    this.#usage = isEvents ? new UsageOfEvents() : new UsageTail()
    if (isEvents) {
      this.#cutter = new EventCutter({
        events: (text) => this.#pass(text),
        failed: (event) => this.#passFailure(event),
      })
    }
    this.#tellSent()
    sink.onHead(this.#head as ForwardHead, isEvents, {
      pause: () => this.#call?.pause(),
      resume: () => this.#call?.resume(),
    })
  }

  #tellSent(): void {
    if (this.#call?.isSent === true) this.#forward.sink.onSent?.()
  }

  #pass(text: string): void {
    if (this.#state === 'ended') return
    this.#usage?.push(text)
    // The router counts pieces as tokens. A comment is not one: there is no output yet.
    if (text.charCodeAt(0) !== COLON) this.#sink.onToken(0)
    this.#forward.sink.onBytes(text, !this.#isLast)
  }

  /** The answer counts as failed, whatever follows. */
  #passFailure(event: string): void {
    const hidden = hiddenFailure(event)
    this.#pass(hidden === null ? event : this.#forward.errorEvent(hidden))
    const text = Buffer.from(dataOf(event), 'latin1').toString('utf8')
    this.#failure ??= asShown(hidden ?? errorOfResponse(500, text))
  }

  #collect(text: string): void {
    const isRefusal = (this.#head?.status ?? 0) >= 300
    if (isRefusal && this.#whole.length > REFUSAL_BYTES_MAX) return
    this.#whole += text
    if (isRefusal || this.#whole.length <= WHOLE_BYTES_MAX) return
    const whole = this.#whole
    this.#whole = ''
    this.#begin(false)
    this.#pass(whole)
  }

  #endWhole(): void {
    const head = this.#head as ForwardHead
    const { status } = head
    const text = this.#whole
    if (status < 300) {
      const page = pageInstead(head.headers['content-type'], text)
      if (page !== null) {
        this.onError(this.#inItsLeg(page))
        return
      }
      const isFailure = reportsFailure(text)
      const fault = isFailure ? hiddenFault(text) : null
      if (fault !== null) {
        this.onError(fault)
        return
      }
      this.#tellSent()
      this.#forward.sink.onWhole(head, isAsciiText(text) ? text : Buffer.from(text, 'latin1'))
      this.#sink.onToken(0)
      if (isFailure) this.onError(asShown(errorOfResponse(500, text)))
      else this.#finish(usageOfWhole(text))
      return
    }
    this.#endRefused(head, Buffer.from(text, 'latin1'))
  }

  /** A refusal that may be shown is shown unchanged, and counts as an error all the same. */
  #endRefused(head: ForwardHead, body: Buffer): void {
    const { status } = head
    const hidden = this.#refusalOf(status, body)
    if (hidden !== null) {
      this.onError(this.#inItsLeg(hidden))
      return
    }
    const error = this.#inItsLeg(errorOfResponse(status, body.toString('utf8')))
    // Another engine may not fail, or not with other KV. If there is none, the client gets this answer.
    if (isEngineFailure(status) || isOfHandOver(error)) {
      this.onError(withEngineAnswer(error, { ...head, body: body.toString('latin1') }))
      return
    }
    this.#forward.sink.onWhole(head, body)
    this.onError(asShown(error))
  }

  #inItsLeg(error: BatonError): BatonError {
    return this.handOvers?.failure(error) ?? error
  }

  /** Null: the answer is passed on unchanged. */
  #refusalOf(status: number, body: Buffer): BatonError | null {
    if (status < 400) return redirected(status)
    // No output yet: another engine may be asked.
    if (status === 502 || status === 503 || status === 504) {
      return errorOfResponse(status, body.toString('utf8'))
    }
    if (body.length > REFUSAL_BYTES_MAX) return errorOfResponse(status, '')
    return hiddenRefusal(status, body)
  }

  #finish(usage: Usage | null): void {
    this.#state = 'ended'
    // A vLLM that is only a consumer reports 0 although it fetched KV, so 0 means unknown.
    const hasMoved = this.hasHandOver && (usage?.cachedTokens ?? 0) > 0
    const told = hasMoved ? { engineData: { kv_moved: true } } : {}
    this.handOvers?.ended(told)
    this.#sink.onChunk(finishChunk('stop', { ...(usage === null ? {} : { usage }), ...told }))
  }
}

/** Not 501: the engine does not have the endpoint. */
function isEngineFailure(status: number): boolean {
  return status >= 500 && status !== 501
}

const COLON = 0x3a
const BEYOND_ASCII = /[\u0080-\u00ff]/

function isAsciiText(text: string): boolean {
  return !BEYOND_ASCII.test(text)
}
