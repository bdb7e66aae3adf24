/**
 * Many steps with one timer: what a driver offers whose time stands still between two timers.
 *
 * A rank that forecasts quiet steps enters here. Whoever fires timers calls `catchUp` on all that are entered before each
 * one, so that an engine is never seen in a state that lies behind the time.
 */
export interface StepRun {
  /** What others can see of the engine is as of now; the tokens of ended steps come with the end of the run. */
  catchUp(nowMs: number): void
  /** The same, and what it has counted of its steps. */
  settle(nowMs: number): void
}

export interface StepAhead {
  enter(run: StepRun): void
  leave(run: StepRun): void
}
