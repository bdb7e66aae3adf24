/**
 * Keeps some memory of the block store touched before it is needed: a page that a process touches for the first time costs several
 * times the copy into it, and a pull would wait for that.
 *
 * Works a little per turn of the event loop, some time after memory was taken, so that it comes after what took it.
 */
import type { KvBlockStore } from '../engine/index.ts'

/** Per turn: a few tenths of a millisecond. */
const TURN_BYTES = 512 * 1024
const TURN_EVERY_MS = 2
/** A hand-over is mostly over by then. */
const WAIT_MS = 50

export class SpareMemory {
  readonly #store: KvBlockStore
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(store: KvBlockStore) {
    this.#store = store
  }

  /** All that may wait, at once: before there are requests. */
  fill(): void {
    while (this.#store.prepare(TURN_BYTES));
  }

  /** Some was taken. */
  fillSoon(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => this.#turn(), WAIT_MS).unref()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #turn(): void {
    const isMore = this.#store.prepare(TURN_BYTES)
    this.#timer = isMore ? setTimeout(() => this.#turn(), TURN_EVERY_MS).unref() : undefined
  }
}
