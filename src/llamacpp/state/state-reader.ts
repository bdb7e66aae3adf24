/** A cursor over the bytes of a state that never reads past the end. */
import { BatonError } from '../../base/index.ts'

export class StateReader {
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get left(): number {
    return this.#view.byteLength - this.#at
  }

  u32(): number {
    this.#need(4)
    const value = this.#view.getUint32(this.#at, true)
    this.#at += 4
    return value
  }

  /** A 64-bit length; values above 2^53 are refused, because no state is that long. */
  u64(): number {
    const low = this.u32()
    const high = this.u32()
    if (high >= 0x200000) throw tooShort('a length beyond 2^53')
    return high * 0x1_0000_0000 + low
  }

  expect(value: number, what: string): void {
    const found = this.u32()
    if (found !== value)
      throw new BatonError(
        'kv.block_refused',
        `the KV state is invalid: ${what} is ${found}, expected ${value}`,
      )
  }

  /** Moves on; returns the position of the skipped bytes. */
  skip(length: number): number {
    this.#need(length)
    const start = this.#at
    this.#at += length
    return start
  }

  #need(length: number): void {
    if (length > this.left) throw tooShort(`${length} bytes are needed, ${this.left} are left`)
  }
}

function tooShort(what: string): BatonError {
  return new BatonError('kv.block_refused', `the KV state is truncated: ${what}`)
}
