/**
 * A request plane that delays tokens until their text is known here, for workers whose engines alone have the
 * vocabulary. An unknown token is asked for, and the tokens after it wait.
 *
 * Owns: the order of an answer during such a question. Answers of all other workers are not touched.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../../request/index.ts'
import { LearnedStream } from './learned-stream.ts'
import type { RemoteText } from './text-description.ts'
import { tokenizerQuestionOf } from './tokenizer-question.ts'

export class LearningPlane implements RequestPlane {
  readonly #below: RequestPlane
  readonly #textOf: (workerId: WorkerId) => RemoteText | null

  /** `textOf`: null for a worker whose model's tokenizer is available here. */
  constructor(below: RequestPlane, textOf: (workerId: WorkerId) => RemoteText | null) {
    this.#below = below
    this.#textOf = textOf
  }

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const text = this.#textOf(workerId)
    if (text === null || tokenizerQuestionOf(request) !== null) {
      return this.#below.send(workerId, request, sink)
    }
    const learning = new LearningSink(new LearnedStream(text.tokenizer, Infinity), sink)
    const handle = this.#below.send(workerId, request, learning)
    learning.onFailed = () => handle.cancel('kill')
    return handle
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#below.releaseKv?.(workerId, offerId)
  }

  close(): Promise<void> {
    return this.#below.close()
  }
}

class LearningSink implements ReplySink {
  /** Called when its text cannot be decoded: further tokens are not wanted. */
  onFailed: (() => void) | null = null
  readonly #learned: LearnedStream
  readonly #sink: ReplySink
  /** Chunks that wait for their predecessors; null: no question is open. */
  #waiting: (Chunk | BatonError)[] | null = null
  #hasEnded = false

  constructor(learned: LearnedStream, sink: ReplySink) {
    this.#learned = learned
    this.#sink = sink
  }

  onToken(tokenId: number): void {
    const chunk = { tokenIds: [tokenId] }
    if (this.#waiting === null && this.#learned.passes(chunk)) this.#sink.onToken(tokenId)
    else this.#take(chunk)
  }

  onChunk(chunk: Chunk): void {
    if (this.#waiting === null && this.#learned.passes(chunk)) this.#sink.onChunk(chunk)
    else this.#take(chunk)
  }

  onError(error: BatonError): void {
    if (this.#waiting === null) this.#sink.onError(error)
    else this.#waiting.push(error)
  }

  onPhase(event: PhaseEvent): void {
    this.#sink.onPhase?.(event)
  }

  #take(item: Chunk): void {
    if (this.#waiting !== null) {
      this.#waiting.push(item)
      return
    }
    this.#waiting = [item]
    void this.#pass(this.#waiting)
  }

  async #pass(waiting: (Chunk | BatonError)[]): Promise<void> {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      if (this.#hasEnded) break
      if (item instanceof BatonError) this.#end(item)
      else await this.#learn(item)
    }
    this.#waiting = null
  }

  async #learn(item: Chunk): Promise<void> {
    try {
      const chunk = await this.#learned.take(item)
      if (chunk !== null) this.#sink.onChunk(chunk)
      if (chunk?.finish !== undefined) this.#hasEnded = true
    } catch (thrown) {
      this.#end(BatonError.from(thrown))
      this.onFailed?.()
    }
  }

  #end(error: BatonError): void {
    this.#hasEnded = true
    this.#sink.onError(error)
  }
}
