/**
 * Shares the event loop between many connections that all have much to do: in one turn of the loop they do a bounded
 * amount of such work together, the rest follows in later turns. Everything else (requests, tokens, timers) runs in
 * between.
 */

export interface TurnTask {
  /** Does about `sizeMax` of its work; returns how much it was. */
  step(sizeMax: number): number
  /** False: it waits for something, and adds itself again. */
  readonly wantsTurn: boolean
}

/** In blocks and events of KV: one takes the receiver 1 to 2 µs. */
const SIZE_MAX = 4_096

export class SharedTurns {
  readonly #sizeMax: number
  #left: number
  readonly #tasks = new Set<TurnTask>()
  #isDue = false

  constructor(sizeMax = SIZE_MAX) {
    this.#sizeMax = sizeMax
    this.#left = sizeMax
  }

  /** True: what comes now has to wait for the next turn. */
  get isSpent(): boolean {
    return this.#left <= 0
  }

  /** For work that is done at once. */
  spend(size: number): void {
    this.#left -= size
    this.#continueSoon()
  }

  add(task: TurnTask): void {
    this.#tasks.add(task)
    this.#continueSoon()
  }

  remove(task: TurnTask): void {
    this.#tasks.delete(task)
  }

  #continueSoon(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    this.#isDue = false
    this.#left = this.#sizeMax
    let rest = this.#tasks.size
    for (const task of this.#tasks) {
      if (rest-- === 0 || this.isSpent) break
      // Those that have had their share are the last ones in the next turn.
      this.#tasks.delete(task)
      this.#left -= task.step(this.#left)
      if (task.wantsTurn) this.#tasks.add(task)
    }
    if (this.#tasks.size > 0 || this.#left < this.#sizeMax) this.#continueSoon()
  }
}
