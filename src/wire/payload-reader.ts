/** Reads the fields of one payload in order; every read is bounds-checked. */
import { readU32 } from './u32.ts'
import { protocolError } from './protocol-error.ts'

const U32 = 4294967296
const NO_WORDS = new Uint32Array(0)
/** Up to this length a loop is faster than a view of the bytes: most KV events are about one or a few blocks. */
export const SHORT_WORDS = 32

export class PayloadReader {
  readonly #bytes: Uint8Array
  readonly #end: number
  #at: number

  constructor(bytes: Uint8Array, start = 0, end = bytes.length) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
  }

  get remaining(): number {
    return this.#end - this.#at
  }

  u8(): number {
    return this.#bytes[this.#take(1)] ?? 0
  }

  u16(): number {
    const at = this.#take(2)
    return (this.#bytes[at] ?? 0) | ((this.#bytes[at + 1] ?? 0) << 8)
  }

  u32(): number {
    return readU32(this.#bytes, this.#take(4))
  }

  /** A u64 that must be a safe integer. */
  u64(): number {
    const low = this.u32()
    const value = this.u32() * U32 + low
    if (!Number.isSafeInteger(value)) {
      throw protocolError(
        'message.out_of_range',
        `a number is out of range: expected at most 2^53 - 1`,
      )
    }
    return value
  }

  f64(): number {
    const at = this.#take(8)
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + at, 8).getFloat64(0, true)
  }

  /** A view; copy it to keep it. */
  bytes(count: number): Uint8Array {
    const at = this.#take(count)
    return this.#bytes.subarray(at, at + count)
  }

  /** A copy of the bytes. (`slice` would not copy if they are a Node Buffer.) */
  copy(count: number): Uint8Array {
    return new Uint8Array(this.bytes(count))
  }

  /** `count` numbers, copied. */
  u32s(count: number): Uint32Array {
    if (count === 0) return NO_WORDS
    if (count > SHORT_WORDS) return u32sOf(this.bytes(count * 4))
    const at = this.#take(count * 4)
    const numbers = new Uint32Array(count)
    for (let i = 0; i < count; i++) numbers[i] = readU32(this.#bytes, at + i * 4)
    return numbers
  }

  rest(): Uint8Array {
    return this.bytes(this.remaining)
  }

  expectEnd(what: string): void {
    if (this.remaining === 0) return
    throw protocolError(
      'message.malformed',
      `${this.remaining} unexpected bytes at the end of ${what}`,
    )
  }

  #take(count: number): number {
    const at = this.#at
    if (at + count > this.#end) {
      throw protocolError(
        'message.truncated',
        `a message is truncated: ${at + count - this.#end} bytes are missing`,
      )
    }
    this.#at = at + count
    return at
  }
}

const IS_LITTLE_ENDIAN = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1

/** Little-endian bytes as numbers, copied because of alignment. A remainder of 1–3 bytes is an error. */
function u32sOf(bytes: Uint8Array): Uint32Array {
  if (bytes.length % 4 !== 0) {
    throw protocolError('message.malformed', `${bytes.length} bytes are not whole u32 numbers`)
  }
  const numbers = new Uint32Array(bytes.length / 4)
  if (IS_LITTLE_ENDIAN) new Uint8Array(numbers.buffer).set(bytes)
  else for (let i = 0; i < numbers.length; i++) numbers[i] = readU32(bytes, i * 4)
  return numbers
}

/** Numbers as little-endian bytes; a view of the same memory on a little-endian machine. */
export function bytesOfU32s(numbers: Uint32Array): Uint8Array {
  if (IS_LITTLE_ENDIAN) {
    return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  }
  const view = new DataView(new ArrayBuffer(numbers.byteLength))
  numbers.forEach((number, i) => view.setUint32(i * 4, number, true))
  return new Uint8Array(view.buffer)
}
