/**
 * When the engine step in progress on a rank ends. An engine that only decodes takes equal steps, one after the other, so
 * the end of one step, which a token shows, tells when the next ones end; the longer ago it was, the less certain.
 */

/** Relative error of a predicted step time: after so many steps, nothing is known about the phase. */
const DRIFT = 0.1
/** The phase is forgotten after so many steps. */
const STEPS_MAX = 32
/** Share of a step by which even the end of the next one is uncertain. */
const JITTER = 0.05

/** 1: the ends of steps are known; 0: they are equally likely at any time. `steps`: since one was seen to end. */
function certainty(steps: number): number {
  const drift = DRIFT * steps
  return 1 / (1 + drift * drift)
}

/** Expected time until the step in progress ends, when one was seen to end `sinceMs` ago. */
export function restOfStep(sinceMs: number, stepMs: number): number {
  if (stepMs <= 0) return 0
  if (sinceMs >= STEPS_MAX * stepMs) return 0.5 * stepMs
  const steps = sinceMs / stepMs
  const known = certainty(steps)
  return stepMs * (known * (1 - (steps - Math.floor(steps))) + 0.5 * (1 - known))
}

/** Width of the interval in which the step in progress ends. */
export function spreadOfStep(sinceMs: number, stepMs: number): number {
  if (stepMs <= 0) return 0
  const known = sinceMs >= STEPS_MAX * stepMs ? 0 : certainty(sinceMs / stepMs)
  return stepMs * (1 + JITTER - known)
}
