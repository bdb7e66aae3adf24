/**
 * `max_thinking_tokens`: stops a model that thinks longer. The request is stopped at its worker, the closing
 * tag is appended to the tokens so far, and the request continues like after a migration.
 *
 * Thinking is everything before the first text of the answer. A model that does not think is not affected.
 */
import type { BatonError } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  Chunk,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
  RequestService,
} from '../../request/index.ts'
import { Detokenizer } from '../../text/index.ts'
import type { ModelText, OutputParser } from '../../text/index.ts'
import { GeneratedOutput } from './generated-output.ts'
import { resumedRequest, withoutResumed } from './resumed-request.ts'

export interface ThinkingLimit {
  readonly limit: number
  readonly model: ModelText
  /** Creates a parser for one reply. */
  readonly createParser: () => OutputParser
  /** The text that ends the thought in the model's format. */
  readonly closing: string
}

export function createThinkingLimitedService(
  below: RequestService,
  options: ThinkingLimit,
): RequestService {
  return {
    send: (request, sink) => new LimitedReply(below, request, sink, options).start(),
  }
}

class LimitedReply implements RequestHandle, ReplySink {
  readonly #below: RequestService
  readonly #request: GenerateRequest
  readonly #sink: ReplySink
  readonly #options: ThinkingLimit
  readonly #detokenizer: Detokenizer
  readonly #parser: OutputParser
  readonly #output: GeneratedOutput
  #thoughtTokens = 0
  #resumedTokens = 0
  #handle: RequestHandle | null = null
  /** `thinking` → `open`, or `thinking` → `closing` (waits for the end of the first part) → `open`. */
  #state: 'thinking' | 'closing' | 'open' = 'thinking'
  #cancelled: 'stop' | 'kill' | null = null

  constructor(
    below: RequestService,
    request: GenerateRequest,
    sink: ReplySink,
    options: ThinkingLimit,
  ) {
    this.#below = below
    this.#request = request
    this.#sink = sink
    this.#options = options
    this.#output = new GeneratedOutput(options.model.tokenizer)
    this.#parser = options.createParser()
    this.#detokenizer = new Detokenizer(options.model.tokenizer, {
      keepTokens: this.#parser.markers,
    })
  }

  start(): this {
    const handle = this.#below.send(this.#request, this)
    // The first part may be over already; then the handle is that of the second part.
    this.#handle ??= handle
    if (this.#cancelled !== null) this.#handle.cancel(this.#cancelled)
    else if (this.#state === 'closing') handle.cancel('stop')
    return this
  }

  cancel(kind: 'stop' | 'kill'): void {
    this.#cancelled = kind
    this.#handle?.cancel(kind)
  }

  onToken(tokenId: number): void {
    if (this.#state === 'closing') return
    this.#sink.onToken(tokenId)
    if (this.#state === 'thinking') this.#watchToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    if (this.#state === 'closing') {
      if (chunk.finish !== undefined) this.#goOn()
      return
    }
    this.#sink.onChunk(withoutResumed(chunk, this.#resumedTokens))
    if (chunk.finish !== undefined) return
    for (const tokenId of chunk.tokenIds) {
      if (this.#state === 'thinking') this.#watchToken(tokenId)
    }
    if (this.#state === 'thinking' && chunk.text !== undefined) this.#watchText(chunk)
  }

  onError(error: BatonError): void {
    this.#sink.onError(error)
  }

  onPhase(event: PhaseEvent): void {
    this.#sink.onPhase?.(event)
  }

  #watchToken(tokenId: number): void {
    this.#output.push(tokenId)
    this.#thoughtTokens += 1
    this.#watch(this.#detokenizer.push(tokenId))
  }

  /** The number of tokens of a text is the engine's usage, or one. */
  #watchText(chunk: Chunk): void {
    this.#output.take(chunk)
    this.#thoughtTokens = chunk.usage?.completionTokens ?? this.#thoughtTokens + 1
    this.#watch(chunk.text ?? '')
  }

  #watch(text: string): void {
    const events = this.#parser.push(text)
    if (events.some((event) => event.kind !== 'reasoning' && !isBlank(event))) {
      this.#state = 'open'
    } else if (this.#thoughtTokens >= this.#options.limit) {
      this.#state = 'closing'
      this.#handle?.cancel('stop')
    }
  }

  #goOn(): void {
    this.#state = 'open'
    const closing = this.#options.model.tokenizer.encode(this.#options.closing, { special: true })
    for (const tokenId of closing) {
      this.#output.push(tokenId)
      this.#sink.onToken(tokenId)
    }
    const tokens = this.#output.tokens()
    this.#resumedTokens = tokens.length
    const next = resumedRequest(this.#request, tokens)
    if (this.#cancelled !== null) this.#sink.onChunk(finishChunk('cancelled'))
    else if (next === null) this.#sink.onChunk(finishChunk('length'))
    else {
      this.#handle = this.#below.send(next, this)
      if (this.#cancelled !== null) this.#handle.cancel(this.#cancelled)
    }
  }
}

function isBlank(event: { readonly kind: string; readonly text?: string }): boolean {
  return event.kind === 'text' && (event.text ?? '').trim() === ''
}
