/**
 * Processes KV_CHUNK payloads from the socket: a head, which may be split, then bytes that are copied once from the
 * read buffer to their block, or not at all when the socket has read them into `rest`.
 */
import { KV_CHUNK_HEAD_BYTES, decodeKvChunkHead, protocolError } from '../../wire/index.ts'
import type { KvChunkHead } from '../../wire/index.ts'

export interface KvChunkInletOptions {
  /** Returns the memory for the chunk's bytes; null skips them. */
  readonly placeOf: (head: KvChunkHead, length: number) => Uint8Array | null
  /** All bytes of the chunk are in their place. */
  readonly onChunk: (head: KvChunkHead, chunk: Uint8Array) => void
}

export class KvChunkInlet {
  readonly #options: KvChunkInletOptions
  readonly #headBytes = new Uint8Array(KV_CHUNK_HEAD_BYTES)
  #head: KvChunkHead | null = null
  #place: Uint8Array | null = null
  /** Number of the chunk's bytes in their place. */
  #filled = 0

  constructor(options: KvChunkInletOptions) {
    this.#options = options
  }

  /** The memory for the next bytes of the current chunk; a read into it needs no copy. Null between chunks. */
  get rest(): Uint8Array | null {
    return this.#place?.subarray(this.#filled) ?? null
  }

  /** The connection was lost: a partial chunk is dropped. */
  reset(): void {
    this.#head = null
    this.#place = null
  }

  /** Receives bytes `start` to `end` of `bytes`, which are at position `at` of a payload of `length` bytes. */
  onPart(length: number, at: number, bytes: Uint8Array, start: number, end: number): void {
    if (length < KV_CHUNK_HEAD_BYTES) throw protocolError('message.truncated', 'KV_CHUNK')
    let from = start
    if (at < KV_CHUNK_HEAD_BYTES) {
      const count = Math.min(end - start, KV_CHUNK_HEAD_BYTES - at)
      this.#headBytes.set(bytes.subarray(start, start + count), at)
      from += count
      if (at + count < KV_CHUNK_HEAD_BYTES) return
      this.#head = decodeKvChunkHead(this.#headBytes)
      this.#place = this.#options.placeOf(this.#head, length - KV_CHUNK_HEAD_BYTES)
    }
    if (this.#head === null || this.#place === null) return
    const offset = at + (from - start) - KV_CHUNK_HEAD_BYTES
    if (!isAt(this.#place, offset, bytes, from)) {
      this.#place.set(bytes.subarray(from, end), offset)
    }
    this.#filled = offset + (end - from)
    if (this.#filled < length - KV_CHUNK_HEAD_BYTES) return
    const place = this.#place
    this.#place = null
    this.#options.onChunk(this.#head, place)
  }
}

/** True when `bytes` from `from` on is the same memory as `place` from `offset` on. */
function isAt(place: Uint8Array, offset: number, bytes: Uint8Array, from: number): boolean {
  return place.buffer === bytes.buffer && place.byteOffset + offset === bytes.byteOffset + from
}
