/**
 * Time as an argument. A pure room never reads a clock; it is handed one.
 * The live driver passes the operating system's clock, the simulator a virtual one.
 */
export interface Timer {
  /** Idempotent; safe after the timer has fired. */
  cancel(): void
}

export interface Clock {
  /** Milliseconds on a monotonic scale with fractions; only differences mean anything. */
  nowMs(): number
  /** Milliseconds since 1970-01-01 UTC, for what a person or another system reads. */
  epochMs(): number
  /** Calls `fire` once, not before `delayMs` have passed. */
  after(delayMs: number, fire: () => void): Timer
}

/** Resolves after `delayMs` of the given clock. */
export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve)
  })
}
