/**
 * The header of a GGUF file: key-value pairs and the list of tensors. Throws a RangeError where the bytes end.
 *
 * Arrays are skipped; only their lengths are kept.
 */
export interface GgufTensor {
  readonly name: string
  readonly dimensions: readonly number[]
  readonly type: number
  readonly offset: number
}

export interface GgufHeader {
  readonly metadata: ReadonlyMap<string, string | number | boolean>
  readonly tensors: readonly GgufTensor[]
  readonly headerBytes: number
  readonly alignment: number
}

const MAGIC = 0x46554747
const COUNT_MAX = 10_000_000
const TEXT_MAX = 256 * 1024 * 1024
const NESTING_MAX = 4
const STRING = 8
const ARRAY = 9
/** Bytes of the scalar types 0 to 12 (u8, i8, u16, i16, u32, i32, f32, bool, –, –, u64, i64, f64). */
const SCALAR_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

export class GgufReader {
  readonly #bytes: Buffer
  readonly #fail: (what: string) => Error
  readonly #arrayLengths = new Map<string, number>()
  #at = 0

  constructor(bytes: Buffer, fail: (what: string) => Error) {
    this.#bytes = bytes
    this.#fail = fail
  }

  read(): GgufHeader {
    if (this.#bytes.length < 8 || this.#bytes.readUInt32LE(0) !== MAGIC)
      throw this.#fail('is not a GGUF file')
    this.#at = 4
    const version = this.#u32()
    if (version < 2 || version > 3)
      throw this.#fail(`has GGUF version ${version}; 2 and 3 are known`)
    const tensorCount = this.#count('tensors')
    const pairCount = this.#count('metadata entries')
    const metadata = new Map<string, string | number | boolean>()
    for (let i = 0; i < pairCount; i++) {
      const key = this.#text()
      const value = this.#value(key, this.#u32(), 0)
      if (value !== undefined) metadata.set(key, value)
    }
    const tensors: GgufTensor[] = []
    for (let i = 0; i < tensorCount; i++) tensors.push(this.#tensor())
    const stated = metadata.get('general.alignment')
    const alignment = typeof stated === 'number' && stated > 0 ? stated : 32
    return { metadata, tensors, headerBytes: this.#at, alignment }
  }

  /** Elements of an array of the metadata; 0 when there is none. */
  arrayLength(key: string): number {
    return this.#arrayLengths.get(key) ?? 0
  }

  #tensor(): GgufTensor {
    const name = this.#text()
    const dimensionCount = this.#u32()
    if (dimensionCount > 8)
      throw this.#fail(`is damaged: a tensor with ${dimensionCount} dimensions`)
    const dimensions: number[] = []
    for (let i = 0; i < dimensionCount; i++) dimensions.push(this.#u64())
    return { name, dimensions, type: this.#u32(), offset: this.#u64() }
  }

  #value(key: string, type: number, depth: number): string | number | boolean | undefined {
    if (type === STRING) return this.#text()
    if (type === ARRAY) {
      this.#skipArray(key, depth)
      return undefined
    }
    const size = SCALAR_BYTES[type] ?? 0
    if (size === 0) throw this.#fail(`is damaged: value type ${type} of '${key}'`)
    const at = this.#take(size)
    if (type === 4) return this.#bytes.readUInt32LE(at)
    if (type === 5) return this.#bytes.readInt32LE(at)
    if (type === 7) return this.#bytes[at] !== 0
    if (type === 10) return Number(this.#bytes.readBigUInt64LE(at))
    return undefined
  }

  #skipArray(key: string, depth: number): void {
    if (depth >= NESTING_MAX) throw this.#fail(`is damaged: '${key}' is nested too deep`)
    const type = this.#u32()
    const length = this.#count(`elements of '${key}'`)
    if (depth === 0) this.#arrayLengths.set(key, length)
    if (type === STRING) {
      for (let i = 0; i < length; i++) this.#take(this.#textLength())
    } else if (type === ARRAY) {
      for (let i = 0; i < length; i++) this.#skipArray(key, depth + 1)
    } else {
      const size = SCALAR_BYTES[type] ?? 0
      if (size === 0) throw this.#fail(`is damaged: element type ${type} of '${key}'`)
      this.#take(size * length)
    }
  }

  #count(what: string): number {
    const count = this.#u64()
    if (count > COUNT_MAX) throw this.#fail(`is damaged: ${count} ${what}`)
    return count
  }

  #textLength(): number {
    const length = this.#u64()
    if (length > TEXT_MAX) throw this.#fail(`is damaged: a text of ${length} bytes`)
    return length
  }

  #text(): string {
    const length = this.#textLength()
    const at = this.#take(length)
    return this.#bytes.toString('utf8', at, at + length)
  }

  #u32(): number {
    return this.#bytes.readUInt32LE(this.#take(4))
  }

  #u64(): number {
    return Number(this.#bytes.readBigUInt64LE(this.#take(8)))
  }

  #take(size: number): number {
    const at = this.#at
    if (at + size > this.#bytes.length)
      throw new RangeError(`the header needs byte ${at + size}, there are ${this.#bytes.length}`)
    this.#at = at + size
    return at
  }
}
