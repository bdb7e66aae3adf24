/**
 * A one-directional link between two memories: copies batches of blocks one after the other, for as long as their
 * bytes take. If more than `waitingMax` blocks are queued, further ones are not copied: a link slower than the
 * computation would fall behind forever.
 *
 * It has no clock: the caller passes the time, and asks when the current batch arrives.
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

  /** When the current batch arrives; null: nothing is being copied. */
  get arrivesAtMs(): number | null {
    return this.#batch.length > 0 ? this.#freeAtMs : null
  }

  /** Queues a block; queued blocks are copied together. False: the queue is full and the block is dropped. */
  push(item: T, nowMs: number): boolean {
    if (this.#queue.length >= this.#waitingMax) return false
    this.#queue.push(item)
    if (this.#batch.length === 0) this.#begin(nowMs)
    return true
  }

  /** Returns the batch that has arrived; the next one starts at that moment. */
  arrive(): readonly T[] {
    const arrived = this.#batch
    this.#batch = []
    if (this.#queue.length > 0) this.#begin(this.#freeAtMs)
    return arrived
  }

  /** Reserves the link for this many blocks after the current copy; returns when they will have arrived. */
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
