/**
 * Checksums of offered blocks: made once per block and kept as long as the block lives.
 *
 * The sender of a pull is the busier side, so its part of the checking is done ahead: between the offer and the pull the
 * offer travels over frontend and decode worker, and in that time the sums are made, a piece per turn of the event loop.
 * What is not ready when it is asked for is made then. A block whose bytes change must be another `Uint8Array`.
 */
import { kvChecksum } from '../../wire/index.ts'
import type { KvBlockReader, KvHold } from '../../wire/index.ts'

/** Per turn of the event loop, so that tokens do not wait: well under 0.1 ms. */
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

  /** Of the chunk that begins at `offset`. */
  of(block: Uint8Array, offset: number): number {
    const known = this.#sums.get(block)
    const sums = known ?? []
    if (known === undefined) this.#sums.set(block, sums)
    const end = offset + this.#chunkBytes
    return (sums[offset / this.#chunkBytes] ??= kvChecksum(block.subarray(offset, end)))
  }

  /** Makes the sums of an offer ahead; blocks that are gone by then are passed over. */
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
