/**
 * Time as an argument: a pure room never reads a clock but is given one. Production passes the clock of the operating
 * system, the simulator a virtual one.
 */
export interface Timer {
  /** Idempotent; safe after the timer has fired. */
  cancel(): void
}

export interface Clock {
  /** Monotonic time in milliseconds, with fractions; only differences are meaningful. */
  nowMs(): number
  /** Milliseconds since 1970-01-01 UTC, for timestamps that people or other systems read. */
  epochMs(): number
  /** Calls `fire` once, at the earliest after `delayMs`. */
  after(delayMs: number, fire: () => void): Timer
}

/** Resolves after `delayMs` on the given clock. */
export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve)
  })
}
