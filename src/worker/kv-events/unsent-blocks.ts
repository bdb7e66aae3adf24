/**
 * The blocks of one tier that a snapshot has not contained yet, while blocks are stored and removed.
 *
 * Marks the rows of the table that were sent, and goes over the table as often as it takes: a row may be moved to a
 * place that was already visited.
 */
import type { KvEvent, KvTier } from '../../kv/index.ts'
import type { HeldBlocks } from './held-blocks.ts'
import type { SlotMarks } from './slot-marks.ts'

/** Limit of rows that one call looks at, because a table may be large and almost empty. */
const ROWS_READ_MAX = 32_768
/** Limit of one climb. Looking up a parent takes much longer than looking at the next row. */
const CLIMB_MAX = 8_192

export class UnsentBlocks {
  readonly #held: HeldBlocks
  readonly #tier: KvTier
  readonly #sent: SlotMarks
  #cursor = 0
  /** Rows of a climb that has reached its limit several times. */
  #climbed = 0

  constructor(held: HeldBlocks, tier: KvTier) {
    this.#held = held
    this.#tier = tier
    this.#sent = held.track()
  }

  get size(): number {
    return this.#sent.unmarked
  }

  has(low: number, high: number): boolean {
    const row = this.#held.rowOf(low, high)
    return row !== -1 && !this.#sent.has(row)
  }

  /** Those blocks are sent in another way; false if none of them is held any more. */
  noteSent(hashes: Uint32Array): boolean {
    let isHeld = false
    for (let at = 0; at + 1 < hashes.length; at += 2) {
      const row = this.#held.rowOf(hashes[at] as number, hashes[at + 1] as number)
      if (row === -1) continue
      isHeld = true
      this.#sent.mark(row)
    }
    return isHeld
  }

  /**
   * Appends `stored` events of about `sizeMax` blocks and events, in chains, parents before children. May append
   * fewer, even none, although blocks are left. Returns their size.
   */
  take(sizeMax: number, events: KvEvent[]): number {
    let size = 0
    for (let read = 0; this.size > 0 && size < sizeMax && read < ROWS_READ_MAX;) {
      if (this.#cursor >= this.#held.capacity) this.#cursor = 0
      if (!this.#isUnsent(this.#cursor)) {
        this.#cursor++
        read++
        continue
      }
      const path = this.#climb(this.#cursor)
      read += path.length === 0 ? CLIMB_MAX : path.length
      if (path.length > 0) size += this.#takeChains(path, sizeMax - size, events)
    }
    return size
  }

  close(): void {
    this.#held.drop(this.#sent)
  }

  #isUnsent(slot: number): boolean {
    return this.#held.isRow(slot) && !this.#sent.has(slot)
  }

  /**
   * Rows from `slot` up to the highest ancestor that is held and was not sent. Empty if the limit was reached; the
   * next climb continues there.
   */
  #climb(slot: number): number[] {
    const path = [slot]
    for (let at = slot; ;) {
      at = this.#held.parentRowAt(at)
      if (at === -1 || this.#sent.has(at)) break
      // Parents in a circle: no event that makes sense causes this, but it must not stop the snapshot.
      if (this.#climbed + path.length >= this.size) break
      if (path.length === CLIMB_MAX) {
        this.#climbed += path.length
        this.#cursor = at
        return []
      }
      path.push(at)
    }
    this.#climbed = 0
    return path
  }

  /** One chain per stretch of blocks that all have, or all lack, a local hash; from the top, as far as `sizeMax` allows. */
  #takeChains(path: readonly number[], sizeMax: number, events: KvEvent[]): number {
    let size = 0
    for (let top = path.length - 1; top >= 0 && size < sizeMax;) {
      const length = this.#chainLength(path, top, Math.max(1, sizeMax - size - 1))
      if (length === 0) top--
      else {
        events.push(this.#chain(path, top, length))
        size += length + 1
        top -= length
      }
    }
    return size
  }

  #chainLength(path: readonly number[], top: number, lengthMax: number): number {
    const hasLocal = this.#held.hasLocalAt(path[top] as number)
    let length = 0
    for (let at = top; at >= 0 && length < lengthMax; at--, length++) {
      const row = path[at] as number
      if (this.#sent.has(row) || this.#held.hasLocalAt(row) !== hasLocal) break
      this.#sent.mark(row)
    }
    return length
  }

  #chain(path: readonly number[], top: number, length: number): KvEvent {
    const first = path[top] as number
    const hasLocal = this.#held.hasLocalAt(first)
    const hashes = new Uint32Array(2 * length)
    const localHashes = hasLocal ? new Uint32Array(2 * length) : NO_HASHES
    for (let i = 0; i < length; i++) {
      const row = path[top - i] as number
      this.#held.copyHash(row, hashes, 2 * i)
      if (hasLocal) this.#held.copyLocal(row, localHashes, 2 * i)
    }
    return {
      kind: 'stored',
      tier: this.#tier,
      parent: this.#held.parentAt(first),
      hashes,
      localHashes,
    }
  }
}

const NO_HASHES = new Uint32Array(0)
