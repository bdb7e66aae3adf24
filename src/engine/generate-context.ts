/**
 * What an engine may know and do about one request while it generates.
 *
 * `stop` asks for an orderly end (the stream ends with `cancelled`), `kill` for the quickest one.
 */
export interface GenerateContext {
  readonly requestId: string
  readonly isStopped: boolean
  readonly isKilled: boolean
  /** Aborted on stop or kill, so that waiting can be raced. */
  readonly signal: AbortSignal
  /** The framework calls it on the first chunk with tokens; an engine may call it earlier. Idempotent. */
  notifyFirstToken(): void
}

/** The one implementation: owned by whoever runs the request, handed to the engine as `GenerateContext`. */
export class RequestContext implements GenerateContext {
  readonly requestId: string
  readonly #controller = new AbortController()
  readonly #onFirstToken: (() => void) | undefined
  #killed = false
  #firstToken = false

  constructor(requestId: string, onFirstToken?: () => void) {
    this.requestId = requestId
    this.#onFirstToken = onFirstToken
  }

  get isStopped(): boolean {
    return this.#controller.signal.aborted
  }

  get isKilled(): boolean {
    return this.#killed
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get hasFirstToken(): boolean {
    return this.#firstToken
  }

  notifyFirstToken(): void {
    if (this.#firstToken) return
    this.#firstToken = true
    this.#onFirstToken?.()
  }

  stop(): void {
    this.#controller.abort()
  }

  kill(): void {
    this.#killed = true
    this.#controller.abort()
  }
}
