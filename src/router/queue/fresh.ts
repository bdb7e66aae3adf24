/**
 * For answers that are kept until something changes. A real clock does not show the same time twice, so that an answer is as good
 * as new for a moment; what only time changes is checked again far later.
 */
const FRESH_MS = 1

export interface Moment {
  /** A counter that changes with every change of load or fleet. */
  readonly version: number
  readonly nowMs: number
}

/** True if what was known at that moment still holds. */
export function isFresh(known: Moment, now: Moment): boolean {
  return known.version === now.version && now.nowMs - known.nowMs < FRESH_MS
}
