/** Reads the typed values of a GGUF header one after the other from the bytes that are available. */
type GgufNumbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array

export type GgufValue =
  | number
  | boolean
  | string
  | GgufNumbers
  | readonly string[]
  | readonly boolean[]
  | readonly GgufValue[]

/** Not a failure: the caller has read only the beginning of the file and should read more. */
export class NeedsMoreBytes extends Error {
  readonly bytesNeeded: number
  constructor(bytesNeeded: number) {
    super(`needs ${bytesNeeded} bytes`)
    this.bytesNeeded = bytesNeeded
  }
}

const TYPE = Object.freeze({
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
})
const BYTES_OF_TYPE = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8]
const NESTING_MAX = 4
const STRING_ASCII_MAX = 24

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class GgufCursor {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #bytesMax: number
  #at = 0

  /** `bytesMax`: no value can extend beyond this offset (the file size). */
  constructor(bytes: Uint8Array, bytesMax: number) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#bytesMax = bytesMax
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true)
  }

  /** Offset of the next value. */
  get at(): number {
    return this.#at
  }

  /** A u64 that is a length or count. */
  length(): number {
    const value = this.u64()
    if (value > this.#bytesMax) throw new Error(`a length of ${value} at byte ${this.#at - 8}`)
    return value
  }

  u64(): number {
    const at = this.#take(8)
    return this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 4294967296
  }

  string(): string {
    const length = this.length()
    const at = this.#take(length)
    return length <= STRING_ASCII_MAX ? this.#short(at, length) : this.#decode(at, length)
  }

  value(type: number, depth = 0): GgufValue {
    switch (type) {
      case TYPE.u8:
        return this.#view.getUint8(this.#take(1))
      case TYPE.i8:
        return this.#view.getInt8(this.#take(1))
      case TYPE.u16:
        return this.#view.getUint16(this.#take(2), true)
      case TYPE.i16:
        return this.#view.getInt16(this.#take(2), true)
      case TYPE.u32:
        return this.u32()
      case TYPE.i32:
        return this.#view.getInt32(this.#take(4), true)
      case TYPE.f32:
        return this.#view.getFloat32(this.#take(4), true)
      case TYPE.bool:
        return this.#view.getUint8(this.#take(1)) !== 0
      case TYPE.string:
        return this.string()
      case TYPE.array:
        return this.#array(depth)
      case TYPE.u64:
        return this.u64()
      case TYPE.i64:
        return Number(this.#view.getBigInt64(this.#take(8), true))
      case TYPE.f64:
        return this.#view.getFloat64(this.#take(8), true)
      default:
        throw unknownType(type, this.#at)
    }
  }

  /** Skips a value without decoding it. */
  skip(type: number, depth = 0): void {
    if (type === TYPE.string) {
      this.#take(this.length())
    } else if (type === TYPE.array) {
      const { type: inner, count, bytesEach } = this.#listHead(depth)
      if (inner !== TYPE.string && inner !== TYPE.array) this.#take(count * bytesEach)
      else for (let i = 0; i < count; i++) this.skip(inner, depth + 1)
    } else {
      const bytes = BYTES_OF_TYPE[type]
      if (bytes === undefined) throw unknownType(type, this.#at)
      this.#take(bytes)
    }
  }

  #listHead(depth: number): { type: number; count: number; bytesEach: number } {
    if (depth >= NESTING_MAX) throw new Error(`lists nested deeper than ${NESTING_MAX}`)
    const type = this.u32()
    const count = this.length()
    const bytesEach = BYTES_OF_TYPE[type]
    if (bytesEach === undefined)
      throw new Error(`an unknown list type ${type} at byte ${this.#at - 12}`)
    // Every item has at least this size, so a list that exceeds the file is never allocated.
    this.#require(count * bytesEach)
    return { type, count, bytesEach }
  }

  #array(depth: number): GgufValue {
    const { type, count } = this.#listHead(depth)
    if (type === TYPE.string) return Array.from({ length: count }, () => this.string())
    if (type === TYPE.bool) return Array.from({ length: count }, () => this.value(type) === true)
    if (type === TYPE.array) return Array.from({ length: count }, () => this.value(type, depth + 1))
    const numbers = numbersOf(type, count)
    for (let i = 0; i < count; i++) numbers[i] = this.value(type) as number
    return numbers
  }

  /** Most tokens are a few ASCII letters, for which a loop is cheaper than a decoder call. */
  #short(at: number, length: number): string {
    let text = ''
    for (let i = at; i < at + length; i++) {
      const byte = this.#bytes[i]!
      if (byte >= 0x80) return this.#decode(at, length)
      text += String.fromCharCode(byte)
    }
    return text
  }

  #decode(at: number, length: number): string {
    return decoder.decode(this.#bytes.subarray(at, at + length))
  }

  #take(length: number): number {
    this.#require(length)
    const at = this.#at
    this.#at += length
    return at
  }

  #require(length: number): void {
    const end = this.#at + length
    if (end > this.#bytesMax) {
      throw new Error(`the file ends at byte ${this.#bytesMax}, but a value extends to byte ${end}`)
    }
    if (end > this.#bytes.length) throw new NeedsMoreBytes(end)
  }
}

function unknownType(type: number, end: number): Error {
  return new Error(`an unknown value type ${type} at byte ${end - 4}`)
}

function numbersOf(type: number, count: number): GgufNumbers {
  switch (type) {
    case TYPE.u8:
      return new Uint8Array(count)
    case TYPE.i8:
      return new Int8Array(count)
    case TYPE.u16:
      return new Uint16Array(count)
    case TYPE.i16:
      return new Int16Array(count)
    case TYPE.u32:
      return new Uint32Array(count)
    case TYPE.i32:
      return new Int32Array(count)
    case TYPE.f32:
      return new Float32Array(count)
    default:
      return new Float64Array(count)
  }
}
