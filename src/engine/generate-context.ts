/**
 * What an engine can know and do about one request while it generates.
 *
 * `stop` asks for an orderly end (the stream ends with `cancelled`), `kill` for the fastest possible end.
 */
export interface GenerateContext {
  readonly requestId: string
  readonly isStopped: boolean
  readonly isKilled: boolean
  /** Aborted on stop or kill, so that a wait can be interrupted. */
  readonly signal: AbortSignal
  /** The request has left the engine's own queue and work on it begins. Never called: it began at once. Idempotent. */
  notifyStarted(): void
  /** Called by the framework on the first chunk with tokens; an engine may call it earlier. Idempotent. */
  notifyFirstToken(): void
}

/** The only implementation: owned by whoever runs the request, passed to the engine as `GenerateContext`. */
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
    // A separate flag, because Node creates the signal lazily and most requests never use it.
    this.#stopped = true
    this.#controller.abort()
  }

  kill(): void {
    this.#killed = true
    this.stop()
  }
}
