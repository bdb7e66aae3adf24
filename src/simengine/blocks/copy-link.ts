/**
 * One direction between two memories: copies batches of blocks, one after the other, each as long as its bytes take.
 * What would have to wait behind more than `waitingMax` others is not copied: a link that is slower than what computes
 * would fall behind for ever.
 *
 * It has no clock: whoever drives it says what time it is, and asks when the batch under way arrives.
 */
export class CopyLink<T> {
  readonly #msPerBlock: number
  readonly #batchMax: number
  readonly #waitingMax: number
  readonly #queue: T[] = []
  #batch: T[] = []
  #freeAtMs = -Infinity

  constructor(msPerBlock: number, batchMax = Infinity, waitingMax = Infinity) {
    this.#msPerBlock = msPerBlock
    this.#batchMax = batchMax
    this.#waitingMax = waitingMax
  }

  /** When the batch under way arrives; null: nothing is copied. */
  get arrivesAtMs(): number | null {
    return this.#batch.length > 0 ? this.#freeAtMs : null
  }

  /** Copied when its turn comes; several that wait go together. False: too many wait, it is left out. */
  push(item: T, nowMs: number): boolean {
    if (this.#queue.length >= this.#waitingMax) return false
    this.#queue.push(item)
    if (this.#batch.length === 0) this.#begin(nowMs)
    return true
  }

  /** The batch that has arrived, all at once; the next one begins at that moment. */
  arrive(): readonly T[] {
    const arrived = this.#batch
    this.#batch = []
    if (this.#queue.length > 0) this.#begin(this.#freeAtMs)
    return arrived
  }

  /** Copies so many blocks right behind what is under way; returns when they are there. */
  reserve(blocks: number, nowMs: number): number {
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + blocks * this.#msPerBlock
    return this.#freeAtMs
  }

  clear(): void {
    this.#queue.length = 0
    this.#batch = []
  }

  #begin(nowMs: number): void {
    this.#batch = this.#queue.splice(0, this.#batchMax)
    this.reserve(this.#batch.length, nowMs)
  }
}
