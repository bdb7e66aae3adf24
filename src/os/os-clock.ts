/**
 * The operating system's clock, as pure rooms take it.
 */
import type { Clock, Timer } from '../base/index.ts'

export const osClock: Clock = {
  nowMs: () => performance.now(),
  epochMs: () => Date.now(),
  after: (delayMs: number, fire: () => void): Timer => {
    const timer = setTimeout(fire, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
}
