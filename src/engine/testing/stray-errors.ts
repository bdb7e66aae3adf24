/**
 * Detects failures of an engine outside any call of the contract: an unhandled rejection, a timer that throws. In a
 * worker either would end the process with all its streams.
 *
 * While the kit runs it replaces other listeners (a test runner would fail the whole file without naming a rule).
 * Without Node's `process` nothing is watched.
 */
type Listener = (thrown: unknown) => void

interface ProcessEvents {
  listeners(event: string): Listener[]
  removeAllListeners(event: string): unknown
  on(event: string, listener: Listener): unknown
}

const EVENTS = ['unhandledRejection', 'uncaughtException'] as const

export class StrayErrors {
  readonly #process = (globalThis as { process?: ProcessEvents }).process
  readonly #before = new Map<string, Listener[]>()

  constructor(onError: (event: string, thrown: unknown) => void) {
    const events = this.#process
    if (events?.listeners === undefined) return
    for (const event of EVENTS) {
      this.#before.set(event, events.listeners(event))
      events.removeAllListeners(event)
      events.on(event, (thrown) => onError(event, thrown))
    }
  }

  /** Restores the previous listeners. */
  close(): void {
    for (const [event, listeners] of this.#before) {
      this.#process?.removeAllListeners(event)
      for (const listener of listeners) this.#process?.on(event, listener)
    }
    this.#before.clear()
  }
}
