/**
 * Collects the body of a request and returns it in one piece at its end.
 *
 * If its length was announced, a body of several pieces is copied into one buffer as it arrives. A piece that is
 * kept until the end lives long enough to be moved to the old generation; with bodies of hundreds of kilobytes most
 * of the garbage collector's work was to look for such pieces. For the same reason the memory of large pieces is freed
 * when they were copied, and whoever has read a large body may free it (`freeOwned`).
 */
import { freeMemory, ownMemory } from '../../base/index.ts'

/** At most this many bytes are allocated for a length that was only announced. */
const ANNOUNCED_BYTES_MAX = 1024 * 1024
const EMPTY = new Uint8Array(0)

export class BodyPieces {
  readonly #announced: number
  readonly #bytesMax: number
  #bytes = 0
  /** Has the announced length; null: the first piece was the whole body, or no credible length was announced. */
  #buffer: Buffer | null = null
  #pieces: Buffer[] = []

  /** `announced`: the content-length; 0 or NaN: none. */
  constructor(announced: number, bytesMax: number) {
    this.#announced = announced
    this.#bytesMax = bytesMax
  }

  /** False: the limit is exceeded, and nothing is kept. */
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
    else {
      piece.copy(this.#buffer, at)
      free(piece)
    }
    return true
  }

  /** The whole body, after its end. */
  whole(): Uint8Array {
    const whole = this.#whole()
    if (ownsItsMemory(whole)) ownMemory(whole.buffer)
    return whole
  }

  #whole(): Uint8Array {
    if (this.#buffer !== null) return this.#buffer.subarray(0, this.#bytes)
    if (this.#pieces.length === 1) return this.#pieces[0] ?? EMPTY
    const whole = Buffer.concat(this.#pieces)
    for (const piece of this.#pieces) free(piece)
    return whole
  }

  #isWorthACopy(first: Buffer): boolean {
    return this.#announced > first.length && this.#announced <= ANNOUNCED_BYTES_MAX
  }
}

/** After it was copied. */
function free(piece: Buffer): void {
  if (ownsItsMemory(piece)) freeMemory(piece.buffer)
}

/** Node's HTTP parser copies each piece to memory of its own. Other pieces may share theirs with what follows. */
function ownsItsMemory(bytes: Uint8Array): bytes is Uint8Array<ArrayBuffer> {
  return bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer
}
