/**
 * The body of a request as it comes, in one piece at its end.
 *
 * A body of several pieces is copied into one buffer as they come, when its length was said: a piece that is kept until the
 * end lives long enough to be moved to the old generation, and with bodies of hundreds of kilobytes most of what the
 * garbage collector did was to look for such pieces.
 */

/** More is not set aside for what has only been announced. */
const ANNOUNCED_BYTES_MAX = 1024 * 1024
const EMPTY = new Uint8Array(0)

export class BodyPieces {
  readonly #announced: number
  readonly #bytesMax: number
  #bytes = 0
  /** Of the announced length; null: the first piece was all of it, or nothing was announced that can be believed. */
  #buffer: Buffer | null = null
  #pieces: Buffer[] = []

  /** `announced`: of the head; 0 or what is no number: not said. */
  constructor(announced: number, bytesMax: number) {
    this.#announced = announced
    this.#bytesMax = bytesMax
  }

  /** False: it is over the limit, and nothing is kept. */
  add(piece: Buffer): boolean {
    const at = this.#bytes
    this.#bytes = at + piece.length
    if (this.#bytes > this.#bytesMax) {
      this.#pieces = []
      this.#buffer = null
      return false
    }
    if (at === 0 && this.#isWorthACopy(piece)) {
      this.#buffer = Buffer.allocUnsafeSlow(this.#announced)
    }
    if (this.#buffer !== null && this.#bytes > this.#announced) {
      this.#pieces.push(this.#buffer.subarray(0, at))
      this.#buffer = null
    }
    if (this.#buffer === null) this.#pieces.push(piece)
    else piece.copy(this.#buffer, at)
    return true
  }

  /** Of a body that has ended and is within the limit. */
  whole(): Uint8Array {
    if (this.#buffer !== null) return this.#buffer.subarray(0, this.#bytes)
    return this.#pieces.length === 1 ? (this.#pieces[0] ?? EMPTY) : Buffer.concat(this.#pieces)
  }

  #isWorthACopy(first: Buffer): boolean {
    return this.#announced > first.length && this.#announced <= ANNOUNCED_BYTES_MAX
  }
}
