/**
 * The live streams of one connection by number, made for the token's way: an array lookup, no hashing.
 *
 * A number is a slot and a generation. A slot is used again only after all others (first freed, first used), so a
 * token that comes late for a stream that has ended meets another generation and is dropped.
 */
import type { ReplySink } from '../../request/index.ts'

const SLOT_BITS = 16
const SLOT_MASK = (1 << SLOT_BITS) - 1
/** Numbers stay below 2^30, where the engine keeps them unboxed. */
const GENERATION_MAX = (1 << 14) - 1
export const STREAMS_MAX = 1 << SLOT_BITS

export interface StreamEntry {
  readonly streamId: number
  readonly sink: ReplySink
  /** Items taken since credit was last given. */
  taken: number
}

export class StreamTable {
  readonly #entries: (StreamEntry | undefined)[] = []
  readonly #generations: number[] = []
  #free: number[] = []
  #freeHead = 0
  #count = 0

  get size(): number {
    return this.#count
  }

  get(streamId: number): StreamEntry | undefined {
    const entry = this.#entries[streamId & SLOT_MASK]
    return entry !== undefined && entry.streamId === streamId ? entry : undefined
  }

  /** Undefined when all slots are taken. */
  add(sink: ReplySink): StreamEntry | undefined {
    const slot = this.#takeSlot()
    if (slot === undefined) return undefined
    const streamId = ((this.#generations[slot] ?? 0) << SLOT_BITS) | slot
    const entry: StreamEntry = { streamId, sink, taken: 0 }
    this.#entries[slot] = entry
    this.#count += 1
    return entry
  }

  delete(entry: StreamEntry): void {
    const slot = entry.streamId & SLOT_MASK
    if (this.#entries[slot] !== entry) return
    this.#entries[slot] = undefined
    this.#generations[slot] = ((this.#generations[slot] ?? 0) + 1) & GENERATION_MAX
    this.#free.push(slot)
    this.#count -= 1
  }

  /** Empties the table and returns what was in it. */
  clear(): StreamEntry[] {
    const live = this.#entries.filter((entry) => entry !== undefined)
    for (const entry of live) this.delete(entry)
    return live
  }

  #takeSlot(): number | undefined {
    // Fresh slots first while there are few, so that numbers are not used again soon.
    const waiting = this.#free.length - this.#freeHead
    if (waiting > 0 && (waiting >= 64 || this.#entries.length >= STREAMS_MAX)) {
      const slot = this.#free[this.#freeHead]
      this.#freeHead += 1
      if (this.#freeHead > 1_024) {
        this.#free = this.#free.slice(this.#freeHead)
        this.#freeHead = 0
      }
      return slot
    }
    if (this.#entries.length >= STREAMS_MAX) return undefined
    this.#entries.push(undefined)
    this.#generations.push(0)
    return this.#entries.length - 1
  }
}
