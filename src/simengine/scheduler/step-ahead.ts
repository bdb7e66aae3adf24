/**
 * Several steps with one timer: provided by a driver whose time stands still between two timers.
 *
 * A rank that forecasts quiet steps registers here. The driver calls `catchUp` on all registered runs before it fires
 * a timer, so that an engine is never observed in an outdated state.
 */
export interface StepRun {
  /** Brings the visible state of the engine up to now; the tokens of ended steps are reported at the end of the run. */
  catchUp(nowMs: number): void
  /** The same, including step counters. */
  settle(nowMs: number): void
}

export interface StepAhead {
  enter(run: StepRun): void
  leave(run: StepRun): void
}
