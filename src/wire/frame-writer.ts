/**
 * Writes frames into pooled memory: many small frames become one buffer and one write to the socket.
 *
 * A slab is filled from the front and never overwritten, so buffers returned by `take` stay valid while a socket
 * holds them; a full slab is left to the garbage collector. No allocation per frame or token. Long data that no
 * longer changes (a prompt) is not copied.
 */
import { joinedBytes } from '../base/index.ts'
import { SHORT_WORDS, bytesOfU32s } from './payload-reader.ts'

const SLAB_BYTES = 64 * 1024
/** Shorter data is copied, because a separate write would cost more. */
const UNCOPIED_BYTES_MIN = 16 * 1024
/** Of a frame: length and tag. */
export const HEADER_BYTES = 8
const U32 = 4294967296

export class FrameWriter {
  readonly #slabBytes: number
  #slab: Uint8Array
  #view: DataView
  #end = 0
  #taken = 0
  #frame = -1
  /** Buffers before the bytes of the slab that have not been taken yet. */
  #parts: Uint8Array[] | null = null

  constructor(slabBytes = SLAB_BYTES) {
    this.#slabBytes = slabBytes
    this.#slab = new Uint8Array(0)
    this.#view = new DataView(this.#slab.buffer)
  }

  /** Payload bytes of the open frame; 0 if there is none. */
  get openBytes(): number {
    return this.#frame === -1 ? 0 : this.#end - this.#frame - HEADER_BYTES
  }

  /** Whoever began a frame that is still open has thrown: nothing of that frame is sent. */
  begin(tag: number): this {
    if (this.#frame !== -1) this.#end = this.#frame
    this.#frame = -1
    this.#reserve(HEADER_BYTES)
    this.#frame = this.#end
    this.#view.setUint32(this.#end + 4, tag, true)
    this.#end += HEADER_BYTES
    return this
  }

  /** `following`: payload bytes that come after this part, by `follow` and `bytes`, or sent by the caller. */
  end(following = 0): this {
    this.#view.setUint32(this.#frame, this.#end - this.#frame - HEADER_BYTES + following, true)
    this.#frame = -1
    return this
  }

  u8(value: number): this {
    this.#reserve(1)
    this.#slab[this.#end] = value
    this.#end += 1
    return this
  }

  u16(value: number): this {
    this.#reserve(2)
    this.#view.setUint16(this.#end, value, true)
    this.#end += 2
    return this
  }

  u32(value: number): this {
    this.#reserve(4)
    this.#view.setUint32(this.#end, value, true)
    this.#end += 4
    return this
  }

  /** A non-negative safe integer. */
  u64(value: number): this {
    return this.u32(value % U32).u32(Math.floor(value / U32))
  }

  f64(value: number): this {
    this.#reserve(8)
    this.#view.setFloat64(this.#end, value, true)
    this.#end += 8
    return this
  }

  bytes(value: Uint8Array): this {
    this.#reserve(value.length)
    this.#slab.set(value, this.#end)
    this.#end += value.length
    return this
  }

  u32s(values: Uint32Array): this {
    // `buffer` of a short array is expensive: V8 has to move its elements out of the heap first.
    if (values.length > SHORT_WORDS) return this.bytes(bytesOfU32s(values))
    this.#reserve(4 * values.length)
    for (let i = 0; i < values.length; i++) {
      this.#view.setUint32(this.#end, values[i] as number, true)
      this.#end += 4
    }
    return this
  }

  /** Outside a frame: the bytes announced by `end`. Long data is not copied and must not change any more. */
  follow(value: Uint8Array): this {
    if (value.length < UNCOPIED_BYTES_MIN) return this.bytes(value)
    const before = this.#takeSlab()
    this.#parts ??= []
    if (before !== undefined) this.#parts.push(before)
    this.#parts.push(value)
    return this
  }

  /** The finished frames since the last call; undefined if there are none. The caller may keep the view. */
  take(): Uint8Array | undefined {
    const bytes = this.#takeSlab()
    if (this.#parts === null) return bytes
    const parts = bytes === undefined ? this.#parts : [...this.#parts, bytes]
    this.#parts = null
    return joinedBytes(parts)
  }

  /** Uncopied buffers that precede the bytes of `take`; null: none, the usual case. */
  takeLong(): readonly Uint8Array[] | null {
    const parts = this.#parts
    this.#parts = null
    return parts
  }

  #takeSlab(): Uint8Array | undefined {
    const end = this.#frame === -1 ? this.#end : this.#frame
    if (end === this.#taken) return undefined
    const taken = this.#slab.subarray(this.#taken, end)
    this.#taken = end
    return taken
  }

  #reserve(count: number): void {
    if (this.#end + count <= this.#slab.length) return
    const kept = this.#end - this.#taken
    const slab = new Uint8Array(Math.max(this.#slabBytes, (kept + count) * 2))
    slab.set(this.#slab.subarray(this.#taken, this.#end))
    if (this.#frame !== -1) this.#frame -= this.#taken
    this.#end = kept
    this.#taken = 0
    this.#slab = slab
    this.#view = new DataView(slab.buffer)
  }
}
