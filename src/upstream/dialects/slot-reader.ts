/** Tells a lent slot what the answer of its request shows about it. */
import type { Piece, PieceReader } from './dialect.ts'
import { numberIn } from './plain-values.ts'
import type { SlotLease } from './slot-pool.ts'

export class SlotReader implements PieceReader {
  readonly #reader: PieceReader
  readonly #lease: SlotLease

  constructor(reader: PieceReader, lease: SlotLease) {
    this.#reader = reader
    this.#lease = lease
  }

  read(json: unknown): Piece | null {
    const piece = this.#reader.read(json)
    if (piece === null || piece.error !== undefined) return piece
    this.#lease.computed()
    // Named at the end only; -1 before.
    if (piece.finish !== undefined) this.#lease.answeredFrom(numberIn(json, 'id_slot'))
    return piece
  }
}
