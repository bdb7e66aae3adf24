/**
 * Sends a forwarded request to the worker beside its engine, and returns the answer, over any request plane: the
 * client's request travels in `extra`, the answer in `engineData` of chunks without tokens.
 *
 * Owns: both ends of that. Text has one character per byte.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { ErrorValue } from '../../base/index.ts'
import type { GenerateContext } from '../../engine/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  Chunk,
  ForwardedRequest,
  ForwardFlow,
  ForwardHead,
  ForwardSink,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  Usage,
  WorkerCard,
} from '../../request/index.ts'
import { startForward } from './forward-target.ts'
import type { ForwardTarget } from './forward-target.ts'

const KEY = 'forward'
/** Most pieces that wait for the reader; beyond that the engine is slowed down. */
const PIECES_MAX = 64
/** Single pieces cannot be slowed down on the way back; the limit for slow clients is where they wait. */
const NO_FLOW: ForwardFlow = { pause: () => undefined, resume: () => undefined }
const COLON = 0x3a

/** The part of the client's request that is sent. */
interface Crossing {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** One piece of the answer. */
interface AnswerPiece {
  readonly head?: ForwardHead
  readonly isEvents?: boolean
  readonly whole?: string | Uint8Array
  readonly bytes?: string
  readonly failure?: ErrorValue
  readonly usage?: Usage
}

/** The request in the form for the worker. */
export function remoteRequest(
  request: GenerateRequest,
  forward: ForwardedRequest,
  { engine, mode }: WorkerCard,
): GenerateRequest {
  const { forward: _forward, ...rest } = request
  const { method, path, headers } = forward
  // llama-server notices only for a stream that its reader has left.
  const isStreamed = engine.runtimeData?.['upstream_kind'] === 'llama-server'
  const body = (mode === 'prefill' ? forward.prefillBody?.(isStreamed) : undefined) ?? forward.body
  const crossing: Crossing = { method, path, headers, body }
  return { ...rest, extra: { ...request.extra, [KEY]: crossing } }
}

/** The frontend's end: converts chunks to what the reader of a forwarded request expects. */
export class RemoteReplySink implements ReplySink {
  readonly #forward: ForwardedRequest
  readonly #sink: ReplySink

  constructor(forward: ForwardedRequest, sink: ReplySink) {
    this.#forward = forward
    this.#sink = sink
  }

  onToken(tokenId: number): void {
    this.#sink.onToken(tokenId)
  }

  onPhase(event: PhaseEvent): void {
    this.#sink.onPhase?.(event)
  }

  onError(error: BatonError): void {
    this.#sink.onError(error)
  }

  onChunk(chunk: Chunk): void {
    const { engineData, ...rest } = chunk
    const piece = isRecord(engineData) ? engineData[KEY] : undefined
    if (!isRecord(piece)) {
      this.#sink.onChunk(chunk)
      return
    }
    const { [KEY]: _piece, ...others } = engineData as Readonly<Record<string, unknown>>
    const { usage } = this.#take(piece)
    if (chunk.finish === undefined) return
    const hasOthers = Object.keys(others).length > 0
    this.#sink.onChunk({
      ...rest,
      ...(usage === undefined ? {} : { usage }),
      ...(hasOthers ? { engineData: others } : {}),
    })
  }

  #take(piece: AnswerPiece): AnswerPiece {
    const { bytes, failure, head, isEvents, whole } = piece
    const { sink } = this.#forward
    if (head !== undefined && whole !== undefined) {
      sink.onWhole(head, whole)
      this.#sink.onToken(0)
    } else if (head !== undefined) sink.onHead(head, isEvents === true, NO_FLOW)
    const text =
      failure === undefined ? bytes : this.#forward.errorEvent(BatonError.fromValue(failure))
    if (text === undefined) return piece
    if (text.charCodeAt(0) !== COLON) this.#sink.onToken(0)
    sink.onBytes(text)
    return piece
  }
}

/** The client's request that a worker was sent; null: an ordinary request with tokens. */
export function crossingOf({ extra }: GenerateRequest): Crossing | null {
  const crossing = extra?.[KEY]
  if (!isRecord(crossing)) return null
  const { method, path, headers, body } = crossing
  const isWhole =
    typeof method === 'string' &&
    typeof path === 'string' &&
    path.startsWith('/') &&
    isRecord(headers) &&
    body instanceof Uint8Array
  if (!isWhole) throw new BatonError('transport.protocol', 'the forwarded request is malformed')
  return crossing as unknown as Crossing
}

/** The worker's end: converts the engine's answer to chunks. */
export async function* forwardedChunks(
  target: ForwardTarget,
  crossing: Crossing,
  request: GenerateRequest,
  { signal }: GenerateContext,
): AsyncIterable<Chunk> {
  const answer = new AnswerChunks()
  const forward: ForwardedRequest = {
    ...crossing,
    prefillBody: () => crossing.body,
    sink: answer,
    errorEvent: (error) => answer.failing(error),
  }
  if (signal.aborted) return yield finishChunk('cancelled')
  const handle = startForward(target, forward, request, answer)
  const onStop = (): void => handle.cancel('stop')
  signal.addEventListener('abort', onStop, { once: true })
  try {
    for (;;) {
      const chunk = await answer.next(signal)
      yield chunk
      if (chunk.finish !== undefined) return
    }
  } finally {
    signal.removeEventListener('abort', onStop)
    handle.cancel('kill')
  }
}

class AnswerChunks implements ForwardSink, ReplySink {
  #queue: (Chunk | BatonError)[] = []
  #flow: ForwardFlow | null = null
  #isHeld = false
  #wake: (() => void) | null = null
  #failure: BatonError | null = null

  /** The next chunk; rejects with the error that ends the answer. */
  async next(signal: { readonly aborted: boolean }): Promise<Chunk> {
    for (;;) {
      // The waiting pieces are not wanted any more.
      if (signal.aborted) return finishChunk('cancelled')
      const item = this.#queue.shift()
      if (item instanceof BatonError) throw item
      if (item !== undefined) {
        if (this.#isHeld && this.#queue.length < PIECES_MAX / 2) this.#release()
        return item
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** The other end writes the event in the form of the client's API. */
  failing(error: BatonError): string {
    this.#failure = error
    return ''
  }

  onWhole(head: ForwardHead, body: string | Uint8Array): void {
    this.#put({ head, whole: body })
  }

  onHead(head: ForwardHead, isEvents: boolean, flow: ForwardFlow): void {
    this.#flow = flow
    this.#put({ head, isEvents })
  }

  onBytes(bytes: string): void {
    const failure = this.#failure
    this.#failure = null
    this.#put(failure === null ? { bytes } : { failure: failure.toValue() })
  }

  onToken(): void {
    // Tokens are counted at the other end.
  }

  onChunk({ usage, engineData, ...chunk }: Chunk): void {
    const piece: AnswerPiece = usage === undefined ? {} : { usage }
    const others = isRecord(engineData) ? engineData : {}
    this.#push({ ...chunk, engineData: { ...others, [KEY]: piece } })
  }

  onError(error: BatonError): void {
    this.#push(error)
  }

  #put(piece: AnswerPiece): void {
    this.#push({ tokenIds: [], engineData: { [KEY]: piece } })
    if (this.#queue.length <= PIECES_MAX || this.#isHeld) return
    this.#isHeld = true
    this.#flow?.pause()
  }

  #release(): void {
    this.#isHeld = false
    this.#flow?.resume()
  }

  #push(item: Chunk | BatonError): void {
    this.#queue.push(item)
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }
}
