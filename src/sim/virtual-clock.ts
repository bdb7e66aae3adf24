/**
 * A clock that stands still until it is told to go on: timers fire in order of their time, then of their making.
 *
 * Between two timers the microtasks of the first one are let run, so code that awaits behaves as it does live. A run is
 * repeatable as long as what it drives takes time and randomness from its arguments only. Nothing in the language says
 * when the microtasks are through: a number of turns is waited, or the driver passes a `settle` that knows (in Node
 * `() => new Promise(setImmediate)`), which code with long chains of awaits needs.
 */
import type { Clock, Timer } from '../base/index.ts'

interface Entry {
  readonly atMs: number
  readonly order: number
  fire: (() => void) | null
}

export interface VirtualClockOptions {
  /** What `epochMs` says at the start. */
  readonly epochMs?: number
  /** Resolves when no microtask is left. */
  readonly settle?: () => Promise<void>
}

/** Without a `settle`: the longest chain of awaits that one timer may cause. */
const MICROTASK_TURNS = 64

export class VirtualClock implements Clock {
  readonly #heap: Entry[] = []
  readonly #epochMs: number
  readonly #settle: (() => Promise<void>) | null
  #nowMs = 0
  #order = 0

  constructor(options: VirtualClockOptions = {}) {
    this.#epochMs = options.epochMs ?? 0
    this.#settle = options.settle ?? null
  }

  nowMs(): number {
    return this.#nowMs
  }

  epochMs(): number {
    return this.#epochMs + this.#nowMs
  }

  after(delayMs: number, fire: () => void): Timer {
    const entry: Entry = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, fire }
    this.#push(entry)
    return {
      cancel: () => {
        entry.fire = null
      },
    }
  }

  /** The time of the next timer, or null. */
  get nextMs(): number | null {
    while (this.#heap.length > 0 && this.#heap[0]!.fire === null) this.#pop()
    return this.#heap[0]?.atMs ?? null
  }

  /** Fires the next timer without letting microtasks run; false when there is none (up to `untilMs`). */
  fireNext(untilMs = Infinity): boolean {
    const atMs = this.nextMs
    if (atMs === null || atMs > untilMs) return false
    const { fire } = this.#pop()
    this.#nowMs = atMs
    fire?.()
    return true
  }

  /** Runs until no timer is left (or `untilMs`), with the microtasks between. Returns the number of timers fired. */
  async run(untilMs = Infinity): Promise<number> {
    let fired = 0
    await this.settle()
    while (this.fireNext(untilMs)) {
      fired += 1
      await this.settle()
    }
    if (untilMs !== Infinity) this.#nowMs = Math.max(this.#nowMs, untilMs)
    return fired
  }

  /** Goes on until the promise is settled, and returns its value. Throws when the timers end before. */
  async runUntil<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const mark = (): void => {
      isSettled = true
    }
    promise.then(mark, mark)
    await this.settle()
    while (!isSettled) {
      if (!this.fireNext())
        throw new Error('virtual time has ended, but the promise is not settled')
      await this.settle()
    }
    return promise
  }

  /** Lets what is ready run, without going on in time. */
  async settle(): Promise<void> {
    if (this.#settle !== null) return this.#settle()
    for (let turn = 0; turn < MICROTASK_TURNS; turn++) await Promise.resolve()
  }

  #push(entry: Entry): void {
    const heap = this.#heap
    let i = heap.length
    heap.push(entry)
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!isBefore(entry, heap[parent]!)) break
      heap[i] = heap[parent]!
      i = parent
    }
    heap[i] = entry
  }

  #pop(): Entry {
    const heap = this.#heap
    const top = heap[0]!
    const last = heap.pop()!
    if (heap.length === 0) return top
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1
      if (!isBefore(heap[child]!, last)) break
      heap[i] = heap[child]!
      i = child
    }
    heap[i] = last
    return top
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}
