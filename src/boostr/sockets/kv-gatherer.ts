/**
 * Assembles the KV_CACHE payloads of one connection when the node wants them, and drops them piecewise when not.
 *
 * A payload may have up to 2 GiB by its frame's length, so memory grows only with the bytes that have arrived.
 */
import { grownBytes } from '../../base/index.ts'

const FIRST_BYTES = 64 * 1024

interface KvGathererOptions {
  /** Called before the first byte: whether a payload of this length is wanted. */
  readonly wants: (length: number) => boolean
  readonly onWhole: (payload: Uint8Array) => void
}

export class KvGatherer {
  readonly #options: KvGathererOptions
  #isWanted = false
  #bytes: Uint8Array = new Uint8Array(0)

  constructor(options: KvGathererOptions) {
    this.#options = options
  }

  /** Memory held for the current payload. */
  get heldBytes(): number {
    return this.#bytes.length
  }

  onPart(length: number, offset: number, piece: Uint8Array): void {
    if (offset === 0) this.#isWanted = this.#options.wants(length)
    if (!this.#isWanted) return
    const end = offset + piece.length
    this.#bytes = grownBytes(this.#bytes, end, { least: FIRST_BYTES, most: length })
    this.#bytes.set(piece, offset)
    if (end < length) return
    const whole = this.#bytes
    this.#bytes = new Uint8Array(0)
    this.#isWanted = false
    this.#options.onWhole(whole)
  }
}
