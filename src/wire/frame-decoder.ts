/**
 * Cuts a byte stream into frames: `[length u32][tag u32][payload]`, little-endian; `length` counts the payload only.
 *
 * Enforces every limit before memory is allocated; the meaning of payloads is not its concern. A frame that is
 * completely contained in one piece is passed on as a range of that piece without copying, so the range is only valid
 * during the call. A frame split over pieces is collected in a buffer that grows with the bytes received, so a forged
 * length never causes an allocation. Frames with a `streamed` tag are never collected; their parts are passed on as
 * they arrive. After an error, or after `stop`, the decoder ignores all input.
 */
import { grownBytes } from '../base/index.ts'
import { SKIPPED_BYTES_MAX } from './frame-limits.ts'
import type { FrameLimits } from './frame-limits.ts'
import { SummedInput } from './frame-sums.ts'
import { HEADER_BYTES } from './frame-writer.ts'
import { protocolError } from './protocol-error.ts'
import { SKIPPABLE, tagName } from './tag.ts'
import { readU32 } from './u32.ts'

export interface FrameHandler {
  /** `bytes[start, end)` is the payload; only valid during the call. */
  onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void
  /** A part of a streamed payload of `length` bytes; `offset` is its position in the payload. */
  onPart?(
    tag: number,
    length: number,
    offset: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void
}

const GATHER_BYTES_FIRST = 16 * 1024

export class FrameDecoder {
  #limits: FrameLimits
  readonly #handler: FrameHandler
  readonly #streamedTag: number
  readonly #header = new Uint8Array(HEADER_BYTES)
  #headerFill = 0
  /** Of the current frame; valid once `#headerFill` is 8. */
  #tag = 0
  #length = 0
  #fill = 0
  #mode: 'gather' | 'stream' | 'skip' = 'gather'
  #gathered: Uint8Array = new Uint8Array(0)
  #ended = false
  #sums: SummedInput | null = null

  constructor(limits: FrameLimits, handler: FrameHandler, streamedTag = -1) {
    this.#limits = limits
    this.#handler = handler
    this.#streamedTag = streamedTag
  }

  /** Takes effect with the next frame. */
  set limits(limits: FrameLimits) {
    this.#limits = limits
  }

  /** From the next byte on, the peer sends records with checksums (`SummedInput`). */
  expectSums(peerHelloSum: number): void {
    this.#sums ??= new SummedInput(peerHelloSum)
  }

  /** Memory held for an incomplete frame, in bytes. */
  get gatheredBytes(): number {
    return this.#gathered.length + (this.#sums?.gatheredBytes ?? 0)
  }

  /** True between frames: the stream may end here without loss. */
  get isAtBoundary(): boolean {
    return this.#headerFill === 0 && this.#sums?.isAtBoundary !== false
  }

  get isEnded(): boolean {
    return this.#ended
  }

  /** Stops decoding, even within the piece that is being pushed. */
  stop(): void {
    this.#ended = true
    this.#gathered = new Uint8Array(0)
  }

  /** Throws `transport.protocol`; exceptions of the handler pass through. Both end the decoder. */
  push(piece: Uint8Array): void {
    let done = false
    try {
      let at = 0
      // The handshake may end within a piece, and what follows has checksums.
      while (at < piece.length && !this.#ended && this.#sums === null) {
        at = this.#step(piece, at, piece.length)
      }
      if (this.#sums !== null) this.#pushSummed(this.#sums, piece, at)
      done = true
    } finally {
      if (!done) this.stop()
    }
  }

  #pushSummed(sums: SummedInput, piece: Uint8Array, from: number): void {
    for (let at = from; at < piece.length && !this.#ended;) {
      at = sums.read(piece, at)
      const { record, recordEnd } = sums
      if (record === null) continue
      for (let k = sums.recordStart; k < recordEnd && !this.#ended;)
        k = this.#step(record, k, recordEnd)
    }
  }

  /** Reads from `piece[at]` on, at most to `limit` or the end of a frame; returns where it ended. */
  #step(piece: Uint8Array, at: number, limit: number): number {
    if (this.#headerFill === HEADER_BYTES) return this.#body(piece, at, limit)
    if (this.#headerFill === 0 && limit - at >= HEADER_BYTES) {
      this.#begin(readU32(piece, at), readU32(piece, at + 4))
      const start = at + HEADER_BYTES
      const end = start + this.#length
      if (this.#mode !== 'gather' || end > limit) return this.#body(piece, start, limit)
      this.#headerFill = 0
      this.#handler.onFrame(this.#tag, piece, start, end)
      return end
    }
    const taken = Math.min(HEADER_BYTES - this.#headerFill, limit - at)
    this.#header.set(piece.subarray(at, at + taken), this.#headerFill)
    this.#headerFill += taken
    if (this.#headerFill < HEADER_BYTES) return at + taken
    this.#begin(readU32(this.#header, 0), readU32(this.#header, 4))
    return this.#body(piece, at + taken, limit)
  }

  /** A header is complete: checks its limit. */
  #begin(length: number, rawTag: number): void {
    const tag = (rawTag & ~SKIPPABLE) >>> 0
    const known = this.#limits.get(tag)
    const limit = known ?? SKIPPED_BYTES_MAX
    if (known === undefined && rawTag < SKIPPABLE) {
      throw protocolError('frame.unknown_tag', `the peer sent the unknown tag ${tag}`, { tag })
    }
    if (length > limit) {
      throw protocolError(
        'frame.too_long',
        `frame ${tagName(tag)} is too long: ${length} bytes, the limit is ${limit}`,
        { tag, length, limit },
      )
    }
    this.#headerFill = HEADER_BYTES
    this.#tag = tag
    this.#length = length
    this.#fill = 0
    this.#mode = known === undefined ? 'skip' : tag === this.#streamedTag ? 'stream' : 'gather'
  }

  #body(piece: Uint8Array, at: number, limit: number): number {
    const end = Math.min(limit, at + this.#length - this.#fill)
    const offset = this.#fill
    if (this.#mode === 'gather') this.#gather(piece, at, end)
    this.#fill += end - at
    const isWhole = this.#fill === this.#length
    if (isWhole) this.#headerFill = 0
    if (this.#mode === 'stream' && (end > at || isWhole)) {
      this.#handler.onPart?.(this.#tag, this.#length, offset, piece, at, end)
    } else if (this.#mode === 'gather' && isWhole) {
      const payload = this.#gathered
      this.#gathered = new Uint8Array(0)
      this.#handler.onFrame(this.#tag, payload, 0, this.#length)
    }
    return end
  }

  #gather(piece: Uint8Array, at: number, end: number): void {
    const limits = { least: GATHER_BYTES_FIRST, most: this.#length }
    this.#gathered = grownBytes(this.#gathered, this.#fill + end - at, limits)
    this.#gathered.set(piece.subarray(at, end), this.#fill)
  }
}
