/**
 * Timers with the same long delay that share one timer of Node. They fire in the order in which they were set, so a linked
 * list is sufficient; setting or cancelling one costs an object and four pointers.
 *
 * Each request sets a few deadlines of minutes and cancels them after milliseconds. With one timer of Node for each, this
 * took a thirtieth of the time of a forwarded request.
 */
import type { Timer } from '../base/index.ts'

/** Node fires timers with a longer delay (25 days) at once. */
export const DELAY_MS_MAX = 2 ** 31 - 1

export class DelayList {
  readonly delayMs: number
  readonly #nowMs: () => number
  /** The next timer that fires; the entries form a doubly linked list. */
  #first: Entry | null = null
  #last: Entry | null = null
  /** Not cancelled together with its entry, because the following entries are due later. */
  #timer: NodeJS.Timeout | null = null
  #isFiring = false

  constructor(delayMs: number, nowMs: () => number) {
    this.delayMs = delayMs
    this.#nowMs = nowMs
  }

  /** True when no timer is set and the timer of Node is not armed. */
  get isIdle(): boolean {
    return this.#first === null && this.#timer === null && !this.#isFiring
  }

  add(fire: () => void): Timer {
    const entry = new Entry(this, this.#nowMs() + this.delayMs, fire)
    const last = this.#last
    entry.before = last
    if (last === null) this.#first = entry
    else last.behind = entry
    this.#last = entry
    if (this.#timer === null) this.#arm()
    // The process is kept alive only while a timer is set.
    else if (last === null) this.#timer.ref()
    return entry
  }

  /** For its entries only. */
  remove(entry: Entry): void {
    const { before, behind } = entry
    if (before === null) this.#first = behind
    else before.behind = behind
    if (behind === null) this.#last = before
    else behind.before = before
    entry.before = null
    entry.behind = null
    if (this.#first === null) this.#timer?.unref()
  }

  #arm(): void {
    const first = this.#first
    if (first === null || this.#isFiring) return
    const leftMs = Math.max(1, Math.ceil(first.dueMs - this.#nowMs()))
    this.#timer = setTimeout(() => this.#fire(), Math.min(leftMs, DELAY_MS_MAX))
  }

  #fire(): void {
    this.#timer = null
    this.#isFiring = true
    const nowMs = this.#nowMs()
    try {
      for (let first = this.#first; first !== null && first.dueMs <= nowMs; first = this.#first) {
        first.cancel()
        first.fire()
      }
    } finally {
      this.#isFiring = false
      this.#arm()
    }
  }
}

class Entry implements Timer {
  before: Entry | null = null
  behind: Entry | null = null
  readonly dueMs: number
  readonly fire: () => void
  /** Null: it has fired or was cancelled. */
  #list: DelayList | null

  constructor(list: DelayList, dueMs: number, fire: () => void) {
    this.#list = list
    this.dueMs = dueMs
    this.fire = fire
  }

  cancel(): void {
    this.#list?.remove(this)
    this.#list = null
  }
}
