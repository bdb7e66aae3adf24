/** A request in a lent slot: the answer shows what the slot contains, and its end gives the slot back. */
import type { Piece, PieceReader, WrittenRequest } from './dialect.ts'
import { numberIn } from './plain-values.ts'
import type { SlotLease } from './slot-pool.ts'

export function inSlot({ http, reader }: WrittenRequest, lease: SlotLease): WrittenRequest {
  return {
    http: { ...http, lane: lease.lane },
    reader: new SlotReader(reader, lease),
    release: () => lease.release(),
  }
}

class SlotReader implements PieceReader {
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
