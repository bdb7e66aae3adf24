/**
 * The operating system's clock in the form that pure rooms use.
 */
import type { Clock, Timer } from '../base/index.ts'
import { DELAY_MS_MAX, DelayList } from './delay-list.ts'

/** A timer for short delays and for delays without a list: an object with one field and without a closure. */
class OsTimer implements Timer {
  readonly #timeout: NodeJS.Timeout

  constructor(timeout: NodeJS.Timeout) {
    this.#timeout = timeout
  }

  cancel(): void {
    clearTimeout(this.#timeout)
  }
}

/** Deadlines of stages are at least this long. Shorter delays mostly differ from each other and get no list. */
const LISTED_MS_MIN = 1000
/** The settings contain few different delays; further ones are computed values, which get no list. */
const LISTS_MAX = 16
const nowMs = (): number => performance.now()

/** A clock with delay lists of its own. A process needs one, `osClock`; tests that replace Node's timers make their own. */
export function createOsClock(): Clock {
  const lists: DelayList[] = []
  const listOf = (delayMs: number): DelayList | null => {
    for (const list of lists) if (list.delayMs === delayMs) return list
    const list = new DelayList(delayMs, nowMs)
    if (lists.length < LISTS_MAX) lists.push(list)
    else {
      const idle = lists.findIndex(({ isIdle }) => isIdle)
      if (idle < 0) return null
      lists[idle] = list
    }
    return list
  }
  return {
    nowMs,
    epochMs: () => Date.now(),
    after: (delayMs: number, fire: () => void): Timer => {
      const list = delayMs >= LISTED_MS_MIN && Number.isInteger(delayMs) ? listOf(delayMs) : null
      if (list !== null) return list.add(fire)
      return new OsTimer(setTimeout(fire, Math.min(delayMs, DELAY_MS_MAX)))
    },
  }
}

export const osClock: Clock = createOsClock()
