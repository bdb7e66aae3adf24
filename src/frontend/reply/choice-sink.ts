/**
 * One choice of a reply: tokens in, text out. This is a token's path through the frontend, made of plain calls.
 *
 * Owns: the count of tokens, the text (detokeniser, then stop strings), and the cancellation of this choice (at
 * most once, and never after its end). It ends exactly once; later calls from below are ignored.
 *
 * Between two tokens of a slow stream its memory leaves the processor's cache, so the cost of a token is the
 * number of objects touched. Therefore this path has few objects.
 */
import { BatonError } from '../../base/index.ts'
import type {
  Chunk,
  FinishReason,
  PhaseEvent,
  PromptLogprobs,
  ReplySink,
  RequestHandle,
  TokenLogprobs,
  Usage,
} from '../../request/index.ts'
import type { Detokenizer, OutputEvent, OutputParser, StopStrings } from '../../text/index.ts'
import type { ReplyTimeline } from './reply-timeline.ts'

/** Receives the text of a choice: for a stream, or for a reply that is sent when it is complete. */
export interface ChoiceOutput {
  text(text: string): void
  part(event: OutputEvent): void
  /** Called instead of `text` when log-probabilities were requested. */
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
  /** The first item of this choice has arrived; its text is not written yet. */
  choiceBegan(): void
  choiceEnded(choice: ChoiceSink): void
  choiceFailed(choice: ChoiceSink, error: BatonError): void
  choicePhase(event: PhaseEvent): void
  nowMs(): number
}

interface ChoiceSinkOptions {
  readonly owner: ChoiceOwner
  readonly output: ChoiceOutput
  readonly detokenizer: Detokenizer
  /** Null when the request has no stop strings. */
  readonly stops: StopStrings | null
  readonly parser: OutputParser | undefined
  /** Null when the reply has no `nvext`, which shows where and when it ran. */
  readonly timeline: ReplyTimeline | null
  /** True when the client accepts only one tool call: the start of a second one ends the choice. */
  readonly endsAtSecondCall: boolean
  /** True when the ids of the tokens are needed at the end. */
  readonly keepTokenIds: boolean
}

export class ChoiceSink implements ReplySink {
  // The fields that every token reads come first, so that they are adjacent in memory.
  #ended = false
  #tokenCount = 0
  readonly #tokenIds: number[] | null
  readonly #detokenizer: Detokenizer
  readonly #stops: StopStrings | null
  readonly #parser: OutputParser | undefined
  readonly #output: ChoiceOutput
  #stopHit: string | null = null
  readonly #endsAtSecondCall: boolean
  /** A second call has started: no more output is shown. */
  #hasSecondCall = false
  /** Number of tokens for which the parser has returned output. */
  #shownTokens = 0
  #reasoningTokens = 0
  readonly timeline: ReplyTimeline | null
  readonly #owner: ChoiceOwner
  #handle: RequestHandle | null = null
  #cancelKind: 'stop' | 'kill' | null = null
  #chunkCount = 0
  #cachedTokens: number | undefined
  #promptTokens: number | undefined
  #engineData: unknown
  #hasText = false
  readonly #promptLogprobs: TokenLogprobs[] = []

  constructor(options: ChoiceSinkOptions) {
    this.timeline = options.timeline
    this.#owner = options.owner
    this.#output = options.output
    this.#detokenizer = options.detokenizer
    this.#stops = options.stops
    this.#parser = options.parser
    this.#endsAtSecondCall = options.endsAtSecondCall
    this.#tokenIds = options.keepTokenIds ? [] : null
  }

  /** For the prompt's tokens except the first, as far as they have arrived. */
  get promptLogprobs(): readonly TokenLogprobs[] {
    return this.#promptLogprobs
  }

  /** Empty unless they are kept. */
  get tokenIds(): readonly number[] {
    return this.#tokenIds ?? []
  }

  get tokenCount(): number {
    return this.#tokenCount
  }

  /** A token counts for the first part of the output that came from it; a tag counts for the part after it. */
  get reasoningTokens(): number {
    return this.#reasoningTokens
  }

  /**
   * Increases with everything that arrives, so that a periodic check can detect whether the choice makes
   * progress.
   */
  get itemCount(): number {
    return this.#tokenCount + this.#chunkCount
  }

  get cachedTokens(): number | undefined {
    return this.#cachedTokens
  }

  /** From an engine that answers with text and may have tokenised the prompt itself. */
  get promptTokens(): number | undefined {
    return this.#promptTokens
  }

  get hasEnded(): boolean {
    return this.#ended
  }

  /** The reply may have ended or been cancelled before the service returned its handle. */
  attach(handle: RequestHandle): void {
    this.#handle = handle
    if (this.#cancelKind !== null) handle.cancel(this.#cancelKind)
  }

  /** Ends the choice from this side: nothing more is written. */
  cancel(kind: 'stop' | 'kill'): void {
    if (this.#ended) return
    this.#ended = true
    this.#cancelBelow(kind)
  }

  onToken(tokenId: number): void {
    if (this.#ended) return
    try {
      this.#tokenCount += 1
      if (this.#tokenCount === 1) this.#firstToken()
      if (this.#tokenIds !== null) this.#tokenIds.push(tokenId)
      const piece = this.#textOf(tokenId)
      if (piece !== '') this.#emit(piece)
      if (this.#stopHit !== null || this.#hasSecondCall) this.#stopByOutput()
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

  onPhase(event: PhaseEvent): void {
    if (this.#ended) return
    if (event.kind === 'routed') this.timeline?.routed(event)
    else if (event.kind === 'kvTransferred') this.timeline?.kvTransferred(event)
    this.#owner.choicePhase(event)
  }

  #take(chunk: Chunk): void {
    const cached = chunk.usage?.cachedTokens ?? chunk.prefillResult?.cachedTokens
    if (cached !== undefined) this.#cachedTokens = cached
    if (chunk.engineData !== undefined) this.#engineData = chunk.engineData
    if (chunk.promptLogprobs !== undefined && !this.#keepScores(chunk.promptLogprobs)) return
    this.#chunkCount += 1
    if (this.itemCount === 1) this.#owner.choiceBegan()
    const { text = '' } = chunk
    if (text === '') this.#pushAll(chunk)
    else this.#pushText(text)
    if (this.#hasText && chunk.usage !== undefined) this.#believe(chunk.usage)
    if (this.#stopHit !== null || this.#hasSecondCall) this.#stopByOutput()
    else if (chunk.finish !== undefined) this.#end(chunk.finish, chunk.stopReason, true)
  }

  /** False: the choice has failed. A position after a gap, which may be huge, would make a list of that length. */
  #keepScores({ from, tokens }: PromptLogprobs): boolean {
    const next = this.#promptLogprobs.length + 1
    if (from > next) {
      const text = `log-probabilities of prompt tokens came from position ${from} instead of ${next}`
      this.#cancelBelow('kill')
      this.onError(new BatonError('backend.contract_violation', text))
      return false
    }
    tokens.forEach((token, index) => (this.#promptLogprobs[from - 1 + index] = token))
    return true
  }

  /** An internal error must not propagate to the calling layer, which serves other requests too. */
  #broke(thrown: unknown): void {
    this.#cancelBelow('kill')
    this.onError(
      new BatonError('runtime.internal', "internal error, see the server's log", { cause: thrown }),
    )
  }

  #pushAll(chunk: Chunk): void {
    let piece = ''
    let taken = 0
    for (const tokenId of chunk.tokenIds) {
      this.#tokenCount += 1
      if (this.#tokenCount === 1) this.#firstToken()
      this.#tokenIds?.push(tokenId)
      taken += 1
      piece += this.#textOf(tokenId)
      if (this.#stopHit !== null) break
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
    // Usually the parser passes a piece on unchanged; otherwise the logprobs follow in a chunk of their own.
    if (events.length === 1 && only?.kind === 'text') {
      this.#shownTokens = this.#tokenCount
      this.#output.textWithLogprobs(only.text, logprobs)
      return
    }
    for (const event of events) this.#part(event)
    this.#output.textWithLogprobs('', logprobs)
  }

  #pushText(text: string): void {
    this.#hasText = true
    this.#tokenCount += 1
    if (this.#tokenCount === 1) this.#firstToken()
    const piece = this.#stops === null ? text : this.#decided(this.#stops, text, 1)
    if (piece !== '') this.#emit(piece)
  }

  /** Only the engine knows how many tokens a text is. */
  #believe({ promptTokens, completionTokens }: Usage): void {
    this.#promptTokens = promptTokens
    this.#tokenCount = completionTokens
  }

  #firstToken(): void {
    this.timeline?.firstToken(this.#owner.nowMs())
    if (this.#chunkCount === 0) this.#owner.choiceBegan()
  }

  /** New text that is final; may be empty. */
  #textOf(tokenId: number): string {
    const text = this.#detokenizer.push(tokenId)
    return this.#stops === null ? text : this.#decided(this.#stops, text, 1)
  }

  /** The end: withheld text is output after all, unless the last bytes complete a stop string. */
  #restOfText(): string {
    const rest = this.#detokenizer.flush()
    const stops = this.#stops
    if (stops === null) return rest
    const emit = this.#decided(stops, rest, 0)
    return this.#stopHit === null ? emit + stops.flush() : emit
  }

  #decided(stops: StopStrings, text: string, tokens: number): string {
    const { emit, stopped } = stops.push(text, tokens)
    if (stopped !== null) this.#stopHit = stopped
    return emit
  }

  #emit(piece: string): void {
    if (this.#parser === undefined) {
      this.#output.text(piece)
      return
    }
    for (const event of this.#parser.push(piece)) this.#part(event)
  }

  #part(event: OutputEvent): void {
    if (this.#endsAtSecondCall && event.kind === 'tool-call-start' && event.index > 0) {
      this.#hasSecondCall = true
    }
    if (this.#hasSecondCall) return
    if (event.kind === 'reasoning') this.#reasoningTokens += this.#tokenCount - this.#shownTokens
    this.#shownTokens = this.#tokenCount
    this.#output.part(event)
  }

  /** A stop string or a forbidden second tool call was found, so the worker is stopped. */
  #stopByOutput(): void {
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
      const rest = this.#restOfText()
      if (rest !== '') this.#emit(rest)
    }
    const stopHit = this.#stopHit
    if (this.#parser !== undefined) {
      const isCut = finish === 'length' || stopHit !== null
      for (const event of this.#parser.flush(isCut)) this.#part(event)
    }
    const reason = stopHit ?? (this.#hasSecondCall ? undefined : stopReason)
    this.#ended = true
    this.#output.finish({
      finish: stopHit === null && !this.#hasSecondCall ? finish : 'stop',
      completionTokens: this.#tokenCount,
      completionTokenIds: this.#tokenIds ?? [],
      ...(reason === undefined ? {} : { stopReason: reason }),
      ...(this.#engineData === undefined ? {} : { engineData: this.#engineData }),
    })
    this.#owner.choiceEnded(this)
  }
}
