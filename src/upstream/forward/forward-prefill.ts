/**
 * The prefill leg of a forwarded request: one whole answer, of which only the KV transfer parameters count. A
 * refusal is passed to the client, because the decode leg would get the same one.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { ForwardedRequest, ReplySink, RequestHandle } from '../../request/index.ts'
import { jsonOf } from '../client/fetch-json.ts'
import type { ResponseHead } from '../client/response-parser.ts'
import type { UpstreamCall, UpstreamRequest, UpstreamSink } from '../client/upstream-call.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { errorOfResponse } from '../dialects/upstream-error.ts'
import { prefillResultOf } from '../dialects/vllm-transfer.ts'
import { hiddenRefusal, shownHeaders } from './shown-answer.ts'

const ANSWER_BYTES_MAX = 16 * 1024 * 1024

export class ForwardPrefill implements UpstreamSink, RequestHandle {
  readonly #clock: Clock
  readonly #requestId: string
  readonly #forward: ForwardedRequest
  readonly #sink: ReplySink
  readonly #pieces: Buffer[] = []
  #bytes = 0
  #head: ResponseHead | null = null
  #call: UpstreamCall | null = null
  #hasEnded = false

  /** `requestId`: the id of the leg. */
  constructor(
    { clock, requestId }: { readonly clock: Clock; readonly requestId: string },
    forward: ForwardedRequest,
    sink: ReplySink,
  ) {
    this.#clock = clock
    this.#requestId = requestId
    this.#forward = forward
    this.#sink = sink
  }

  start(client: UpstreamClient, request: UpstreamRequest): this {
    const call = client.send(request, this)
    this.#call = call
    if (this.#hasEnded) call.abort()
    return this
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#call?.abort()
    if (kind === 'stop') this.#sink.onChunk(finishChunk('cancelled'))
  }

  onHead(head: ResponseHead): void {
    this.#head = head
  }

  onBody(view: Uint8Array): void {
    if (this.#hasEnded) return
    this.#bytes += view.length
    if (this.#bytes <= ANSWER_BYTES_MAX) this.#pieces.push(Buffer.from(view))
    else {
      this.onError(new BatonError('transport.protocol', 'the answer of the engine is too long'))
      this.#call?.abort()
    }
  }

  onEnd(): void {
    if (this.#hasEnded || this.#head === null) return
    const body = Buffer.concat(this.#pieces)
    const { status, headers } = this.#head
    if (status === 200) {
      this.#hasEnded = true
      const json = jsonOf(body.toString('utf8'))
      const params = isRecord(json) ? json['kv_transfer_params'] : null
      const prefillResult = prefillResultOf(params, this.#clock.epochMs(), this.#requestId)
      this.#sink.onChunk(finishChunk('length', prefillResult === null ? {} : { prefillResult }))
      return
    }
    const isRefusal = status >= 400 && status < 500
    const hidden = isRefusal
      ? hiddenRefusal(status, body)
      : errorOfResponse(status, body.toString('utf8'))
    if (hidden !== null) {
      this.onError(hidden)
      return
    }
    this.#hasEnded = true
    this.#forward.sink.onWhole({ status, headers: shownHeaders(headers) }, body)
    this.#sink.onChunk(finishChunk('stop'))
  }

  onError(error: BatonError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#sink.onError(error)
  }
}
