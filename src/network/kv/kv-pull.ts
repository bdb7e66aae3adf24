/**
 * One pull on the decode side: assembles chunks to blocks, verifies them, and passes on complete blocks.
 *
 * Owns: which blocks are missing (so that a lost connection costs only the incomplete block) and the limits that a
 * hostile prefill side must not exceed. Does not own: the connection.
 */
import { BatonError } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import type { KvChunkHead, KvPullTarget } from '../../wire/index.ts'

export interface KvPullOptions {
  readonly pullId: number
  readonly offer: KvOffer
  readonly missing: readonly number[]
  readonly target: KvPullTarget
}

/** The expected checksum of a chunk. */
export type ChunkSum = (head: KvChunkHead, chunk: Uint8Array, blockKeys: Uint32Array) => number

interface BlockUnderWay {
  readonly index: number
  readonly bytes: Uint8Array
  filled: number
}

export class KvPull {
  readonly pullId: number
  readonly offer: KvOffer
  readonly #target: KvPullTarget
  readonly #missing: Set<number>
  #block: BlockUnderWay | null = null
  #bytes = 0
  #blocks = 0
  resumed = 0
  /** The time of the last received chunk, on the clock of `performance.now`. */
  progressAtMs = performance.now()

  constructor(options: KvPullOptions) {
    this.pullId = options.pullId
    this.offer = options.offer
    this.#missing = new Set(options.missing)
    this.#target = options.target
  }

  get missing(): Uint32Array {
    return Uint32Array.from(this.#missing)
  }

  get isComplete(): boolean {
    return this.#missing.size === 0
  }

  get bytes(): number {
    return this.#bytes
  }

  get blocks(): number {
    return this.#blocks
  }

  /** The connection is new: an incomplete block is sent again from its first byte. */
  restart(): void {
    if (this.#block) this.#bytes -= this.#block.bytes.length
    this.#block = null
    this.resumed += 1
    this.progressAtMs = performance.now()
  }

  /** The memory for the chunk's bytes; throws `kv.block_refused` for an invalid head. */
  place(head: KvChunkHead, length: number): Uint8Array {
    const { index, blockBytes, offset } = head
    if (offset === 0) this.#begin(index, blockBytes)
    const block = this.#block
    if (block === null || block.index !== index || block.bytes.length !== blockBytes) {
      throw this.#refused(`chunk of block ${index} arrived without the block's beginning`)
    }
    if (block.filled !== offset || offset + length > blockBytes || (length === 0 && offset > 0)) {
      throw this.#refused(`chunk of block ${index} at ${offset} does not follow ${block.filled}`)
    }
    return block.bytes.subarray(offset, offset + length)
  }

  /** The chunk's bytes are in their place. Passes the block on when it is complete. */
  take(head: KvChunkHead, chunk: Uint8Array, sumOf: ChunkSum | null): void {
    const block = this.#block
    if (block === null) return
    if (sumOf !== null && sumOf(head, chunk, this.offer.blockKeys) !== head.checksum) {
      throw this.#refused(`block ${head.index} is damaged at ${head.offset}: the checksum differs`)
    }
    block.filled += chunk.length
    this.progressAtMs = performance.now()
    if (block.filled < block.bytes.length) return
    this.#block = null
    if (!this.#target.put(block.index, block.bytes)) {
      throw new BatonError('kv.transfer_failed', 'no memory for the pulled KV', {
        data: { kvBytes: this.offer.kvBytes },
      })
    }
    this.#missing.delete(block.index)
    this.#blocks += 1
  }

  #begin(index: number, blockBytes: number): void {
    if (this.#block !== null || !this.#missing.has(index)) {
      throw this.#refused(`block ${index} was not requested`)
    }
    if (this.#bytes + blockBytes > this.offer.kvBytes) {
      throw this.#refused(`more bytes arrived than the ${this.offer.kvBytes} offered ones`)
    }
    this.#bytes += blockBytes
    // Not from Node's buffer pool, because keeping a small block would keep the whole pool.
    const bytes = this.#target.allocate?.(blockBytes) ?? Buffer.allocUnsafeSlow(blockBytes)
    if (bytes.length !== blockBytes) {
      throw new BatonError('kv.transfer_failed', 'no memory for the pulled KV')
    }
    this.#block = { index, bytes, filled: 0 }
  }

  #refused(message: string): BatonError {
    return new BatonError('kv.block_refused', message, { data: { offerId: this.offer.offerId } })
  }
}
