/**
 * One request at a foreign server, from its bytes to chunks that can be awaited.
 *
 * Owns: the call, which ends with its reader: when the reader stops, the connection is closed, which tells the
 * server. Bounded: when nobody reads, the socket is paused.
 */
import { BatonError } from '../base/index.ts'
import type { GenerateRequest } from '../request/index.ts'
import { jsonOf } from './client/fetch-json.ts'
import type { ResponseHead } from './client/response-parser.ts'
import { SseReader } from './client/sse-reader.ts'
import type { UpstreamCall, UpstreamSink } from './client/upstream-call.ts'
import type { UpstreamClient } from './client/upstream-client.ts'
import type { Piece, WrittenRequest } from './dialects/dialect.ts'
import { errorOfResponse, pageInstead } from './dialects/upstream-error.ts'
import { OutputBook } from './output-book.ts'
import type { AnswerChunk } from './remote-text/learned-stream.ts'

const CHUNKS_MAX = 1024
const ERROR_BYTES_MAX = 256 * 1024
const WHOLE_BYTES_MAX = 64 * 2 ** 20
/** How long an unwanted KV transfer may take to be reported to the server. */
const ARRIVAL_MS = 5000

type Body = 'events' | 'whole' | 'error'

export class AnswerStream implements UpstreamSink {
  readonly book: OutputBook
  #written: WrittenRequest
  /** The `traceparent` of the call, for engines that make spans. */
  readonly #traceparent: string | undefined
  readonly #sse: SseReader
  readonly #queue: (AnswerChunk | BatonError)[] = []
  /** Tokens of the chunks that were read; queued ones may be dropped. */
  #taken = 0
  #client: UpstreamClient | null = null
  #call: UpstreamCall | null = null
  #body: Body = 'events'
  #status = 0
  #retryAfter: string | undefined
  /** The content type of a whole answer to a request for a stream. */
  #type: string | undefined
  #kept: Buffer[] = []
  #keptBytes = 0
  #hasEnded = false
  #isPaused = false
  #wake: (() => void) | null = null
  #arrival: NodeJS.Timeout | null = null

  constructor(request: GenerateRequest, written: WrittenRequest, vocabSize = Infinity) {
    this.#written = written
    this.#traceparent = request.traceparent
    this.book = new OutputBook(request, vocabSize)
    this.#sse = new SseReader((data) => this.#onEvent(data))
  }

  start(client: UpstreamClient): void {
    this.#client = client
    const { http } = this.#written
    const traceparent = this.#traceparent
    const headers = traceparent === undefined ? http.headers : { ...http.headers, traceparent }
    const call = client.send(headers === undefined ? http : { ...http, headers }, this)
    this.#call = call
    if (this.#hasEnded) call.abort()
  }

  /** The next chunk; rejects with the error that ends the answer. */
  async next(): Promise<AnswerChunk> {
    while (this.#queue.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const item = this.#queue.shift() as AnswerChunk | BatonError
    if (this.#isPaused && this.#queue.length < CHUNKS_MAX / 2) {
      this.#isPaused = false
      this.#call?.resume()
    }
    if (item instanceof BatonError) throw item
    this.#taken += item.text === undefined ? item.tokenIds.length : 1
    return item
  }

  /** The reader wants no more: queued chunks are dropped, the answer ends as cancelled. */
  cancel(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#queue.length = 0
    this.#put(this.book.cancelled(this.#taken))
    if (this.#written.mustArrive === true && this.#status === 0) {
      this.#arrival = setTimeout(() => this.#letGo(), ARRIVAL_MS)
    } else this.#letGo()
  }

  /** Releases everything; idempotent. */
  close(): void {
    if (this.#arrival !== null) return
    this.#hasEnded = true
    this.#letGo()
  }

  onHead({ status, headers }: ResponseHead): void {
    this.#status = status
    if (this.#arrival !== null) {
      this.#letGo()
      return
    }
    if (status === 429) this.#retryAfter = headers.get('retry-after')
    const coding = headers.get('content-encoding') ?? 'identity'
    if (coding !== 'identity') {
      this.#fail(codedAnswer(coding, status))
      return
    }
    if (status === 200) this.#written.onAccepted?.()
    if (status !== 200) this.#body = 'error'
    else if (this.#written.isWhole === true) this.#body = 'whole'
    else {
      // A server may answer with a JSON document although a stream was requested; it is parsed as such.
      this.#type = headers.get('content-type')
      const isStream = this.#type?.toLowerCase().includes('event-stream') ?? true
      this.#body = isStream ? 'events' : 'whole'
    }
  }

  onBody(bytes: Uint8Array): void {
    if (this.#hasEnded) return
    if (this.#body !== 'events') {
      this.#keep(bytes)
      return
    }
    try {
      this.#sse.push(bytes)
    } catch (thrown) {
      this.#fail(BatonError.from(thrown, 'backend.unknown'))
    }
    if (this.#queue.length > CHUNKS_MAX && !this.#isPaused) {
      this.#isPaused = true
      this.#call?.pause()
    }
  }

  onEnd(): void {
    if (this.#arrival !== null) this.#letGo()
    if (this.#hasEnded) return
    if (this.#startInstead()) return
    const text = Buffer.concat(this.#kept).toString('utf8')
    if (this.#body === 'error') {
      this.#fail(errorOfResponse(this.#status, text, this.#retryAfter))
      return
    }
    const page = pageInstead(this.#type, text)
    if (page !== null) {
      this.#fail(page)
      return
    }
    try {
      if (this.#body === 'whole') this.#onPiece(this.#written.reader.read(jsonOf(text)))
      else this.#sse.end()
    } catch (thrown) {
      this.#fail(BatonError.from(thrown, 'backend.unknown'))
      return
    }
    // A complete document without content is an answer; a retry would not give more.
    const answered = this.#body === 'whole' ? { upstreamStatus: this.#status } : {}
    this.#atEnd(
      new BatonError(
        'transport.disconnected',
        'the engine ended its answer without a finish reason',
        {
          data: { stage: 'upstream', ...answered },
        },
      ),
    )
  }

  /** True: the server does not have this form of the request, and another one was sent. */
  #startInstead(): boolean {
    const { instead } = this.#written
    if (this.#client === null || instead?.statuses.includes(this.#status) !== true) return false
    this.#call?.abort()
    this.#written = instead.written
    this.#body = 'events'
    this.#status = 0
    this.#kept = []
    this.#keptBytes = 0
    this.start(this.#client)
    return true
  }

  onError(error: BatonError): void {
    if (this.#arrival !== null) this.#letGo()
    if (!this.#hasEnded) this.#atEnd(error)
  }

  /** The body has ended, which is an error unless the end was reported before. */
  #atEnd(otherwise: BatonError): void {
    if (this.#hasEnded) return
    if (this.book.hasFinish) this.#finish()
    else this.#fail(otherwise)
  }

  #onEvent(data: string): void {
    if (this.#hasEnded) return
    if (data === '[DONE]') {
      if (this.book.hasFinish) this.#finish()
      return
    }
    this.#onPiece(this.#written.reader.read(jsonOf(data)))
  }

  #onPiece(piece: Piece | null): void {
    if (piece === null || this.#hasEnded) return
    const hadFinish = this.book.hasFinish
    const chunk = this.book.take(piece)
    if (chunk !== null) this.#put(chunk)
    if (!this.book.hasFinish) return
    // A server may continue after the end because it does not know it; usually it ends by itself and reports usage.
    const isOutput = piece.tokenIds.length > 0 || piece.text !== undefined
    const goesOn = hadFinish && piece.finish === undefined && isOutput
    const isComplete = piece.finish !== undefined && piece.promptTokens !== undefined
    if (goesOn || isComplete || this.book.isTextCut) this.#finish()
  }

  #finish(): void {
    this.#hasEnded = true
    this.#put(this.book.end())
    this.#letGo()
  }

  #fail(error: BatonError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#put(error)
    this.#letGo()
  }

  #letGo(): void {
    if (this.#arrival !== null) clearTimeout(this.#arrival)
    this.#arrival = null
    this.#call?.abort()
  }

  #put(item: AnswerChunk | BatonError): void {
    this.#queue.push(item)
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }

  #keep(bytes: Uint8Array): void {
    this.#keptBytes += bytes.length
    const max = this.#body === 'error' ? ERROR_BYTES_MAX : WHOLE_BYTES_MAX
    if (this.#keptBytes <= max) {
      this.#kept.push(Buffer.from(bytes))
      return
    }
    if (this.#body === 'error') this.onEnd()
    else this.#fail(new BatonError('transport.protocol', 'the answer of the engine is too long'))
  }
}

/** No content coding is requested, and none is supported. */
function codedAnswer(coding: string, status: number): BatonError {
  const shown = /^[\w-]{1,20}$/.test(coding) ? ` (${coding})` : ''
  return new BatonError(
    'transport.protocol',
    `the engine compresses its answers${shown}: turn compression off there, or in the proxy before it`,
    { data: { stage: 'upstream', upstreamStatus: status } },
  )
}
