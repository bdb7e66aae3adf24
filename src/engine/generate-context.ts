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
  /** The engine's own queue is behind the request: work on it begins. Never called: it began at once. Idempotent. */
  notifyStarted(): void
  /** The framework calls it on the first chunk with tokens; an engine may call it earlier. Idempotent. */
  notifyFirstToken(): void
}

/** The one implementation: owned by whoever runs the request, handed to the engine as `GenerateContext`. */
export class RequestContext implements GenerateContext {
  readonly requestId: string
  readonly #controller = new AbortController()
  readonly #onFirstToken: (() => void) | undefined
  readonly #onStarted: (() => void) | undefined
  #stopped = false
  #killed = false
  #firstToken = false
  #started = false

  constructor(requestId: string, onFirstToken?: () => void, onStarted?: () => void) {
    this.requestId = requestId
    this.#onFirstToken = onFirstToken
    this.#onStarted = onStarted
  }

  get isStopped(): boolean {
    return this.#stopped
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

  notifyStarted(): void {
    if (this.#started) return
    this.#started = true
    this.#onStarted?.()
  }

  notifyFirstToken(): void {
    if (this.#firstToken) return
    this.#firstToken = true
    this.#onFirstToken?.()
  }

  stop(): void {
    // A flag of its own: Node makes the signal when it is first asked for, and most requests never wait on it.
    this.#stopped = true
    this.#controller.abort()
  }

  kill(): void {
    this.#killed = true
    this.stop()
  }
}
