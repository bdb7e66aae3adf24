/**
 * Keeps some memory of the block store touched in advance: the first access to a page costs several times the copy
 * into it, and a pull would wait for that.
 *
 * It works a little per turn of the event loop, some time after memory was used, so that it does not delay the work
 * that used it.
 */
import type { KvBlockStore } from '../engine/index.ts'

/** Bytes per turn: a few tenths of a millisecond. */
const TURN_BYTES = 512 * 1024
const TURN_EVERY_MS = 2
/** A KV transfer is usually over by then. */
const WAIT_MS = 50

export class SpareMemory {
  readonly #store: KvBlockStore
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(store: KvBlockStore) {
    this.#store = store
  }

  /** Prepares everything at once, before there are requests. */
  fill(): void {
    while (this.#store.prepare(TURN_BYTES));
  }

  /** Some memory was used: prepare more later. */
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
