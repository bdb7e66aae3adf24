/**
 * One pull under way at the decode side: gathers chunks to blocks, checks them, hands whole blocks on.
 *
 * Owns: what is still lacking (so that a broken connection costs only the block that was cut) and the bounds that a
 * hostile prefill side must not pass. Does not own: the connection.
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

/** What a chunk's checksum has to be. */
export type ChunkSum = (head: KvChunkHead, chunk: Uint8Array) => number

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
  /** When something was taken last, on the clock of `performance.now`. */
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

  /** The connection is new: a block that was cut comes again from its first byte. */
  restart(): void {
    if (this.#block) this.#bytes -= this.#block.bytes.length
    this.#block = null
    this.resumed += 1
    this.progressAtMs = performance.now()
  }

  /** The place for the chunk's bytes; throws `kv.block_refused` when the head cannot be true. */
  place(head: KvChunkHead, length: number): Uint8Array {
    const { index, blockBytes, offset } = head
    if (offset === 0) this.#begin(index, blockBytes)
    const block = this.#block
    if (block === null || block.index !== index || block.bytes.length !== blockBytes) {
      throw this.#refused(`chunk of block ${index} without its beginning`)
    }
    if (block.filled !== offset || offset + length > blockBytes || (length === 0 && offset > 0)) {
      throw this.#refused(`chunk of block ${index} at ${offset} does not follow ${block.filled}`)
    }
    return block.bytes.subarray(offset, offset + length)
  }

  /** The chunk's bytes are in their place. Hands the block on when it is whole. */
  take(head: KvChunkHead, chunk: Uint8Array, sumOf: ChunkSum | null): void {
    const block = this.#block
    if (block === null) return
    if (sumOf !== null && sumOf(head, chunk) !== head.checksum) {
      throw this.#refused(`block ${head.index} is damaged at ${head.offset}`)
    }
    block.filled += chunk.length
    this.progressAtMs = performance.now()
    if (block.filled < block.bytes.length) return
    this.#block = null
    if (!this.#target.put(block.index, block.bytes)) {
      throw new BatonError('kv.transfer_failed', 'no room for the pulled KV', {
        data: { kvBytes: this.offer.kvBytes },
      })
    }
    this.#missing.delete(block.index)
    this.#blocks += 1
  }

  #begin(index: number, blockBytes: number): void {
    if (this.#block !== null || !this.#missing.has(index)) {
      throw this.#refused(`block ${index} was not asked for`)
    }
    if (this.#bytes + blockBytes > this.offer.kvBytes) {
      throw this.#refused(`more bytes than the ${this.offer.kvBytes} offered`)
    }
    this.#bytes += blockBytes
    // Not from Node's pool, which whoever keeps a block would keep whole.
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
