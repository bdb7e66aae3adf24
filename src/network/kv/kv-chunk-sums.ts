/**
 * Checksums of offered blocks, computed once per block and kept as long as the block.
 *
 * The sender of a pull has more work than the receiver, so its checksums are computed ahead: the offer travels over
 * frontend and decode worker before the pull, and meanwhile the checksums are computed piecewise, one piece per turn
 * of the event loop. Missing ones are computed on demand. A block whose bytes change must be another `Uint8Array`.
 */
import { kvChecksum } from '../../wire/index.ts'
import type { KvBlockReader, KvHold } from '../../wire/index.ts'

/** Bytes per turn of the event loop: well below 0.1 ms, so that tokens are not delayed. */
const TURN_BYTES = 1024 * 1024

interface Due {
  readonly pin: KvHold
  readonly source: KvBlockReader
  next: number
}

export class KvChunkSums {
  readonly #chunkBytes: number
  readonly #sums = new WeakMap<Uint8Array, number[]>()
  #due: Due[] = []
  #turn: NodeJS.Immediate | null = null

  constructor(chunkBytes: number) {
    this.#chunkBytes = chunkBytes
  }

  /** The checksum of the chunk that starts at `offset`. */
  of(block: Uint8Array, offset: number): number {
    const known = this.#sums.get(block)
    const sums = known ?? []
    if (known === undefined) this.#sums.set(block, sums)
    const end = offset + this.#chunkBytes
    return (sums[offset / this.#chunkBytes] ??= kvChecksum(block.subarray(offset, end)))
  }

  /** Computes the checksums of an offer ahead; blocks that were evicted meanwhile are skipped. */
  prepare(pin: KvHold, source: KvBlockReader): void {
    this.#due.push({ pin, source, next: 0 })
    this.#turn ??= setImmediate(() => this.#onTurn())
  }

  close(): void {
    this.#due = []
    if (this.#turn !== null) clearImmediate(this.#turn)
    this.#turn = null
  }

  #onTurn(): void {
    this.#turn = null
    let left = TURN_BYTES
    while (left > 0) {
      const [due] = this.#due
      if (due === undefined) return
      const { blockKeys } = due.pin
      const block = due.source.get(blockKeys[due.next] ?? 0, blockKeys[due.next + 1] ?? 0)
      due.next += 2
      if (due.next >= blockKeys.length) this.#due.shift()
      if (block === undefined) continue
      for (let at = 0; at === 0 || at < block.length; at += this.#chunkBytes) this.of(block, at)
      left -= block.length
    }
    this.#turn = setImmediate(() => this.#onTurn())
  }
}
