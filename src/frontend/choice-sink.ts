/**
 * One choice of a reply: tokens in, text out. This is the token's way through the frontend, made of plain calls.
 *
 * Owns: the count of tokens, stop strings, the cancel of this choice (at most once, and never after its end).
 * Ends exactly once; what comes later from below is ignored.
 */
import { BatonError } from '../base/index.ts'
import type {
  Chunk,
  FinishReason,
  ReplySink,
  RequestHandle,
  RoutedEvent,
  TokenLogprobs,
} from '../request/index.ts'
import type { OutputEvent, OutputParser } from '../text/index.ts'
import type { ReplyTrail } from './reply-trail.ts'
import type { ReplyText } from './reply-text.ts'

/** Where the text of a choice goes: into a stream, or into a reply that is sent when it is whole. */
export interface ChoiceOutput {
  text(text: string): void
  part(event: OutputEvent): void
  /** Instead of `text`, when log-probabilities were asked for. */
  textWithLogprobs(text: string, logprobs: readonly TokenLogprobs[]): void
  finish(end: ChoiceEnd): void
}

export interface ChoiceEnd {
  readonly finish: FinishReason
  readonly stopReason?: number | string
  readonly completionTokens: number
  readonly completionTokenIds: readonly number[]
  readonly engineData?: unknown
}

/** The exchange that the choice belongs to. */
export interface ChoiceOwner {
  /** Something has come; called for every item before its text is written. */
  itemArrived(): void
  choiceEnded(choice: ChoiceSink): void
  choiceFailed(choice: ChoiceSink, error: BatonError): void
  choiceRouted(choice: ChoiceSink, event: RoutedEvent): void
  nowMs(): number
}

interface ChoiceSinkOptions {
  readonly owner: ChoiceOwner
  readonly output: ChoiceOutput
  readonly text: ReplyText
  readonly parser: OutputParser | undefined
  readonly trail: ReplyTrail
  /** Ids of the tokens are wanted at the end. */
  readonly keepTokenIds: boolean
}

export class ChoiceSink implements ReplySink {
  readonly trail: ReplyTrail
  readonly #owner: ChoiceOwner
  readonly #output: ChoiceOutput
  readonly #text: ReplyText
  readonly #parser: OutputParser | undefined
  readonly #tokenIds: number[] | null
  #handle: RequestHandle | null = null
  #cancelKind: 'stop' | 'kill' | null = null
  #ended = false
  #tokenCount = 0
  #cachedTokens: number | undefined
  #engineData: unknown

  constructor(options: ChoiceSinkOptions) {
    this.trail = options.trail
    this.#owner = options.owner
    this.#output = options.output
    this.#text = options.text
    this.#parser = options.parser
    this.#tokenIds = options.keepTokenIds ? [] : null
  }

  get tokenCount(): number {
    return this.#tokenCount
  }

  get cachedTokens(): number | undefined {
    return this.#cachedTokens
  }

  get hasEnded(): boolean {
    return this.#ended
  }

  /** The reply may have ended, or have been cancelled, before the service gave its handle. */
  attach(handle: RequestHandle): void {
    this.#handle = handle
    if (this.#cancelKind !== null) handle.cancel(this.#cancelKind)
  }

  /** Ends the choice from our side: nothing more is written. */
  cancel(kind: 'stop' | 'kill'): void {
    if (this.#ended) return
    this.#ended = true
    this.#cancelBelow(kind)
  }

  onToken(tokenId: number): void {
    if (this.#ended) return
    try {
      this.#count(tokenId)
      const piece = this.#text.push(tokenId)
      this.#owner.itemArrived()
      if (piece !== '') this.#emit(piece)
      if (this.#text.stopHit !== null) this.#stopByText()
    } catch (thrown) {
      this.#broke(thrown)
    }
  }

  onChunk(chunk: Chunk): void {
    if (this.#ended) return
    try {
      this.#take(chunk)
    } catch (thrown) {
      this.#broke(thrown)
    }
  }

  onError(error: BatonError): void {
    if (this.#ended) return
    this.#ended = true
    this.#owner.choiceFailed(this, error)
  }

  onRouted(event: RoutedEvent): void {
    if (this.#ended) return
    this.trail.routed(event)
    this.#owner.choiceRouted(this, event)
  }

  #take(chunk: Chunk): void {
    const cached = chunk.usage?.cachedTokens ?? chunk.prefillResult?.cachedTokens
    if (cached !== undefined) this.#cachedTokens = cached
    if (chunk.engineData !== undefined) this.#engineData = chunk.engineData
    this.#owner.itemArrived()
    this.#pushAll(chunk)
    if (this.#text.stopHit !== null) this.#stopByText()
    else if (chunk.finish !== undefined) this.#end(chunk.finish, chunk.stopReason, true)
  }

  /** A fault of ours must not reach the layer that called: other requests are served by it. */
  #broke(thrown: unknown): void {
    this.#cancelBelow('kill')
    this.onError(
      new BatonError('runtime.internal', 'internal error, see the log', { cause: thrown }),
    )
  }

  #pushAll(chunk: Chunk): void {
    let piece = ''
    let taken = 0
    for (const tokenId of chunk.tokenIds) {
      this.#count(tokenId)
      taken += 1
      piece += this.#text.push(tokenId)
      if (this.#text.stopHit !== null) break
    }
    if (chunk.logprobs === undefined || taken === 0) {
      if (piece !== '') this.#emit(piece)
      return
    }
    const logprobs = chunk.logprobs.slice(0, taken)
    if (this.#parser === undefined) {
      this.#output.textWithLogprobs(piece, logprobs)
      return
    }
    const events = piece === '' ? [] : this.#parser.push(piece)
    const [only] = events
    // Most often the parser lets a piece through as it is; else the logprobs follow in a chunk of their own.
    if (events.length === 1 && only?.kind === 'text') {
      this.#output.textWithLogprobs(only.text, logprobs)
      return
    }
    for (const event of events) this.#output.part(event)
    this.#output.textWithLogprobs('', logprobs)
  }

  #count(tokenId: number): void {
    this.#tokenCount += 1
    if (this.#tokenCount === 1) this.trail.firstToken(this.#owner.nowMs())
    this.#tokenIds?.push(tokenId)
  }

  #emit(piece: string): void {
    if (this.#parser === undefined) {
      this.#output.text(piece)
      return
    }
    for (const event of this.#parser.push(piece)) this.#output.part(event)
  }

  #stopByText(): void {
    this.#cancelBelow('stop')
    this.#end('stop', undefined, false)
  }

  #cancelBelow(kind: 'stop' | 'kill'): void {
    if (this.#cancelKind !== null) return
    this.#cancelKind = kind
    this.#handle?.cancel(kind)
  }

  #end(finish: FinishReason, stopReason: number | string | undefined, flush: boolean): void {
    if (flush) {
      const rest = this.#text.flush()
      if (rest !== '') this.#emit(rest)
    }
    const stopHit = this.#text.stopHit
    const reason = stopHit ?? stopReason
    if (this.#parser !== undefined) {
      for (const event of this.#parser.flush()) this.#output.part(event)
    }
    this.#ended = true
    this.#output.finish({
      finish: stopHit === null ? finish : 'stop',
      completionTokens: this.#tokenCount,
      completionTokenIds: this.#tokenIds ?? [],
      ...(reason === undefined ? {} : { stopReason: reason }),
      ...(this.#engineData === undefined ? {} : { engineData: this.#engineData }),
    })
    this.#owner.choiceEnded(this)
  }
}
