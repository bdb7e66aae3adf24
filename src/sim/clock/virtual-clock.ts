/**
 * A clock that advances only on request: timers fire in order of their time, then of their creation.
 *
 * Between two timers the microtasks of the first one run, so code that awaits behaves as it does live. A run is
 * repeatable if the simulated code takes time and randomness only from its arguments. JavaScript has no way to tell
 * that no microtask is left: by default a fixed number of turns is awaited, or the caller passes a `settle` that
 * knows (in Node that of room `os`), which code with long chains of awaits needs.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { StepAhead, StepRun } from '../../simengine/index.ts'

interface Entry {
  readonly atMs: number
  readonly order: number
  fire: (() => void) | null
  readonly isQuiet: boolean
}

export interface VirtualClockOptions {
  /** The value of `epochMs` at the start. */
  readonly epochMs?: number
  /** Resolves when no microtask is left. */
  readonly settle?: () => Promise<void>
}

/** Without a `settle`: the longest chain of awaits that one timer may cause. */
const MICROTASK_TURNS = 64

const SWEEP_MIN = 1024
/**
 * With more runs than this, runs are not brought up to date at every timer; each then ends by itself, a little
 * later.
 */
const RUNS_EXACT_MAX = 256

export class VirtualClock implements Clock, StepAhead {
  readonly #heap: Entry[] = []
  readonly #epochMs: number
  readonly #settle: (() => Promise<void>) | null
  readonly #runs = new Set<StepRun>()
  #nowMs = 0
  #order = 0
  #isUnsettled = true
  /** Of the heap's entries. Deadlines are far ahead, and nearly all are cancelled long before. */
  #cancelledCount = 0

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
    return this.#add(delayMs, fire, false)
  }

  /**
   * For callbacks that neither inspect an engine nor resolve a promise: nothing has to be updated or settled for
   * them.
   */
  afterQuietly(delayMs: number, fire: () => void): Timer {
    return this.#add(delayMs, fire, true)
  }

  /** True when the last timer may have left microtasks. */
  get isUnsettled(): boolean {
    return this.#isUnsettled
  }

  #add(delayMs: number, fire: () => void, isQuiet: boolean): Timer {
    const atMs = this.#nowMs + Math.max(0, delayMs)
    const entry: Entry = { atMs, order: this.#order++, fire, isQuiet }
    this.#push(entry)
    return {
      cancel: () => {
        if (entry.fire === null) return
        entry.fire = null
        this.#cancelledCount += 1
        if (2 * this.#cancelledCount > this.#heap.length) this.#sweep()
      },
    }
  }

  enter(run: StepRun): void {
    this.#runs.add(run)
  }

  leave(run: StepRun): void {
    this.#runs.delete(run)
  }

  /** For counters of engine steps: brings the computed steps up to date. */
  settleRuns(): void {
    for (const run of this.#runs) run.settle(this.#nowMs)
  }

  /** The time of the next timer, or null. */
  get nextMs(): number | null {
    while (this.#heap.length > 0 && this.#heap[0]!.fire === null) {
      this.#pop()
      this.#cancelledCount -= 1
    }
    return this.#heap[0]?.atMs ?? null
  }

  /** Fires the next timer without running microtasks; false when there is none (until `untilMs`). */
  fireNext(untilMs = Infinity): boolean {
    const atMs = this.nextMs
    if (atMs === null || atMs > untilMs) return false
    const entry = this.#pop()
    const { fire } = entry
    // A later cancel has no effect.
    entry.fire = null
    this.#nowMs = atMs
    this.#isUnsettled = !entry.isQuiet
    if (!entry.isQuiet && this.#runs.size <= RUNS_EXACT_MAX)
      for (const run of this.#runs) run.catchUp(atMs)
    fire?.()
    return true
  }

  /**
   * Runs until no timer is left (or `untilMs`), with the microtasks in between. Returns the number of fired timers.
   */
  async run(untilMs = Infinity): Promise<number> {
    let fired = 0
    await this.settle()
    while (this.fireNext(untilMs)) {
      fired += 1
      if (this.#isUnsettled) await this.settle()
    }
    if (untilMs !== Infinity) this.#nowMs = Math.max(this.#nowMs, untilMs)
    return fired
  }

  /** Runs until the promise is settled, and returns its value. Throws when the timers end before. */
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

  /** Runs what is ready, without advancing the time. */
  async settle(): Promise<void> {
    if (this.#settle !== null) return this.#settle()
    for (let turn = 0; turn < MICROTASK_TURNS; turn++) await Promise.resolve()
  }

  /** Removes the cancelled entries. A sorted list is a valid heap. */
  #sweep(): void {
    if (this.#heap.length < SWEEP_MIN) return
    const live = this.#heap.filter(({ fire }) => fire !== null)
    live.sort((a, b) => (isBefore(a, b) ? -1 : 1))
    this.#heap.length = 0
    for (const entry of live) this.#heap.push(entry)
    this.#cancelledCount = 0
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
