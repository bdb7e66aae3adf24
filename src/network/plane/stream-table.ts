/**
 * The active streams of one connection by number, optimised for tokens: no hashing, and the data for each token is
 * adjacent for all streams, because between two tokens of a stream its own data leaves the processor's cache.
 *
 * A number consists of a slot and a generation. A slot is reused after all other free ones (first freed, first
 * used), so that a late token of an ended stream has another generation and is dropped.
 */
import type { ReplySink } from '../../request/index.ts'

const SLOT_BITS = 16
const SLOT_MASK = (1 << SLOT_BITS) - 1
/** Numbers stay below 2^30, where V8 stores them without boxing. */
const GENERATION_MAX = (1 << 14) - 1
const FREE = -1
const STREAMS_MAX = 1 << SLOT_BITS

export class StreamTable {
  readonly #sinks: (ReplySink | undefined)[] = []
  /** The number of the stream in each slot, or FREE. */
  #numbers = new Int32Array(64).fill(FREE)
  /** Items of each stream since credit was last given. */
  #taken = new Int32Array(64)
  readonly #generations: number[] = []
  #free: number[] = []
  #freeHead = 0
  #count = 0

  get size(): number {
    return this.#count
  }

  get(streamId: number): ReplySink | undefined {
    const slot = streamId & SLOT_MASK
    return this.#numbers[slot] === streamId ? this.#sinks[slot] : undefined
  }

  has(streamId: number): boolean {
    return this.#numbers[streamId & SLOT_MASK] === streamId
  }

  /** The number of the new stream; undefined when all slots are in use. */
  add(sink: ReplySink): number | undefined {
    const slot = this.#takeSlot()
    if (slot === undefined) return undefined
    const streamId = ((this.#generations[slot] ?? 0) << SLOT_BITS) | slot
    this.#numbers[slot] = streamId
    this.#taken[slot] = 0
    this.#sinks[slot] = sink
    this.#count += 1
    return streamId
  }

  /** Counts one item of an active stream; returns the count since `resetCount`. */
  count(streamId: number): number {
    const slot = streamId & SLOT_MASK
    const taken = (this.#taken[slot] as number) + 1
    this.#taken[slot] = taken
    return taken
  }

  /** Called when credit was given for all counted items. */
  resetCount(streamId: number): void {
    this.#taken[streamId & SLOT_MASK] = 0
  }

  /** Returns the sink if the stream was active. */
  delete(streamId: number): ReplySink | undefined {
    const sink = this.get(streamId)
    if (sink === undefined) return undefined
    const slot = streamId & SLOT_MASK
    this.#sinks[slot] = undefined
    this.#numbers[slot] = FREE
    this.#generations[slot] = ((this.#generations[slot] ?? 0) + 1) & GENERATION_MAX
    this.#free.push(slot)
    this.#count -= 1
    return sink
  }

  /** Empties the table and returns its sinks. */
  clear(): ReplySink[] {
    const live = this.#sinks.filter((sink) => sink !== undefined)
    for (const streamId of this.#numbers) if (streamId !== FREE) this.delete(streamId)
    return live
  }

  #takeSlot(): number | undefined {
    // Fresh slots are used first while there are few, so that numbers are not reused soon.
    const waiting = this.#free.length - this.#freeHead
    if (waiting > 0 && (waiting >= 64 || this.#sinks.length >= STREAMS_MAX)) {
      const slot = this.#free[this.#freeHead]
      this.#freeHead += 1
      if (this.#freeHead > 1_024) {
        this.#free = this.#free.slice(this.#freeHead)
        this.#freeHead = 0
      }
      return slot
    }
    if (this.#sinks.length >= STREAMS_MAX) return undefined
    this.#sinks.push(undefined)
    this.#generations.push(0)
    if (this.#sinks.length > this.#numbers.length) this.#grow()
    return this.#sinks.length - 1
  }

  #grow(): void {
    const numbers = new Int32Array(this.#numbers.length * 2).fill(FREE)
    numbers.set(this.#numbers)
    this.#numbers = numbers
    const taken = new Int32Array(numbers.length)
    taken.set(this.#taken)
    this.#taken = taken
  }
}
