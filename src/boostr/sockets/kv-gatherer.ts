/**
 * KV_CACHE payloads of one connection as they come: gathered when the node wants them, dropped piece by piece when not.
 *
 * A payload may be as long as its frame says, which is up to 2 GiB; memory grows with the bytes that are really there.
 */
const FIRST_BYTES = 64 * 1024

interface KvGathererOptions {
  /** Before the first byte: whether a payload of this length is wanted. */
  readonly wants: (length: number) => boolean
  readonly onWhole: (payload: Uint8Array) => void
}

export class KvGatherer {
  readonly #options: KvGathererOptions
  #isWanted = false
  #bytes = new Uint8Array(0)

  constructor(options: KvGathererOptions) {
    this.#options = options
  }

  /** Memory that is held for a payload under way. */
  get heldBytes(): number {
    return this.#bytes.length
  }

  onPart(length: number, offset: number, piece: Uint8Array): void {
    if (offset === 0) this.#isWanted = this.#options.wants(length)
    if (!this.#isWanted) return
    const end = offset + piece.length
    if (end > this.#bytes.length) this.#grow(length, end)
    this.#bytes.set(piece, offset)
    if (end < length) return
    const whole = this.#bytes
    this.#bytes = new Uint8Array(0)
    this.#isWanted = false
    this.#options.onWhole(whole)
  }

  #grow(length: number, need: number): void {
    const size = Math.min(length, Math.max(need, FIRST_BYTES, this.#bytes.length * 2))
    const grown = new Uint8Array(size)
    grown.set(this.#bytes)
    this.#bytes = grown
  }
}
