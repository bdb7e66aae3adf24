/**
 * Bytes in any pieces → frames `[length u32][tag u32][payload]`, little-endian; `length` counts the payload only.
 *
 * Owns: cutting, and every limit that must hold before memory is taken. Does not own: what a payload means.
 * A frame that lies whole in one piece is handed on as a range of that piece, uncopied; so the range is only valid
 * during the call. A frame cut in two is gathered in a buffer that grows with the bytes that really came, so a length
 * alone never makes us allocate. Frames of a `streamed` tag are never gathered: their parts are handed on as they come.
 * After an error, or after `stop`, the decoder takes nothing more.
 */
import type { FrameLimits } from './frame-limits.ts'
import { protocolError } from './protocol-error.ts'
import { SKIPPABLE, tagName } from './tag.ts'

export interface FrameHandler {
  /** `bytes[start, end)` is the payload; only valid during the call. */
  onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void
  /** A part of a streamed payload of `length` bytes; `offset` is where it lies in the payload. */
  onPart?(
    tag: number,
    length: number,
    offset: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void
}

const HEADER_BYTES = 8
const GATHER_BYTES_FIRST = 16 * 1024

export function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24)) >>>
    0
  )
}

export class FrameDecoder {
  #limits: FrameLimits
  readonly #handler: FrameHandler
  readonly #streamedTag: number
  readonly #header = new Uint8Array(HEADER_BYTES)
  #headerFill = 0
  /** Of the frame that is under way; meaningful once `#headerFill` is 8. */
  #tag = 0
  #length = 0
  #fill = 0
  #mode: 'gather' | 'stream' | 'skip' = 'gather'
  #gathered: Uint8Array = new Uint8Array(0)
  #ended = false

  constructor(limits: FrameLimits, handler: FrameHandler, streamedTag = -1) {
    this.#limits = limits
    this.#handler = handler
    this.#streamedTag = streamedTag
  }

  /** From the next frame on. */
  set limits(limits: FrameLimits) {
    this.#limits = limits
  }

  /** Memory kept for a frame that has not come whole. */
  get gatheredBytes(): number {
    return this.#gathered.length
  }

  /** True between frames: an end of the stream here cuts nothing. */
  get isAtBoundary(): boolean {
    return this.#headerFill === 0
  }

  get isEnded(): boolean {
    return this.#ended
  }

  /** Nothing more is decoded, not even from the piece that is being pushed. */
  stop(): void {
    this.#ended = true
    this.#gathered = new Uint8Array(0)
  }

  /** Throws `transport.protocol`; what the handler throws passes through. Both end the decoder. */
  push(piece: Uint8Array): void {
    let done = false
    try {
      let at = 0
      while (at < piece.length && !this.#ended) at = this.#step(piece, at)
      done = true
    } finally {
      if (!done) this.stop()
    }
  }

  #step(piece: Uint8Array, at: number): number {
    if (this.#headerFill === HEADER_BYTES) return this.#body(piece, at)
    if (this.#headerFill === 0 && piece.length - at >= HEADER_BYTES) {
      this.#begin(readU32(piece, at), readU32(piece, at + 4))
      const start = at + HEADER_BYTES
      const end = start + this.#length
      if (this.#mode !== 'gather' || end > piece.length) return this.#body(piece, start)
      this.#headerFill = 0
      this.#handler.onFrame(this.#tag, piece, start, end)
      return end
    }
    const taken = Math.min(HEADER_BYTES - this.#headerFill, piece.length - at)
    this.#header.set(piece.subarray(at, at + taken), this.#headerFill)
    this.#headerFill += taken
    if (this.#headerFill < HEADER_BYTES) return at + taken
    this.#begin(readU32(this.#header, 0), readU32(this.#header, 4))
    return this.#body(piece, at + taken)
  }

  /** A header is complete: its limits hold from here on. */
  #begin(length: number, rawTag: number): void {
    const tag = (rawTag & ~SKIPPABLE) >>> 0
    const limit = this.#limits.get(tag)
    if (limit === undefined && rawTag < SKIPPABLE) {
      throw protocolError('frame.unknown_tag', `the peer sent the unknown tag ${tag}`, { tag })
    }
    if (limit !== undefined && length > limit) {
      throw protocolError(
        'frame.too_long',
        `a frame ${tagName(tag)} of ${length} bytes is over the limit of ${limit}`,
        { tag, length, limit },
      )
    }
    this.#headerFill = HEADER_BYTES
    this.#tag = tag
    this.#length = length
    this.#fill = 0
    this.#mode = limit === undefined ? 'skip' : tag === this.#streamedTag ? 'stream' : 'gather'
  }

  #body(piece: Uint8Array, at: number): number {
    const end = Math.min(piece.length, at + this.#length - this.#fill)
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
    const need = this.#fill + end - at
    if (need > this.#gathered.length) {
      const size = Math.max(need, GATHER_BYTES_FIRST, this.#gathered.length * 2)
      const grown = new Uint8Array(Math.min(this.#length, size))
      grown.set(this.#gathered.subarray(0, this.#fill))
      this.#gathered = grown
    }
    this.#gathered.set(piece.subarray(at, end), this.#fill)
  }
}
