/**
 * Marks of the content of the batches that were applied last, by number: whether a batch with a known number is the
 * same one once more or another publisher's.
 *
 * Owns: one mark of 32 bits per batch. Engines write the time into each batch, so its ends and its length tell two
 * batches apart without reading megabytes of tokens.
 */
import { xxh3 } from '../../kv/index.ts'

export interface NumberedBatch {
  readonly sequence: number
  readonly payload: Uint8Array
}

/** More than engines keep for replays by default (10,000). */
const KEPT = 16_384
const END_BYTES = 256

export class ContentMarks {
  readonly #marks = new Uint32Array(KEPT)
  /** The numbers with a mark, from `#from` to before `#to`. */
  #from = 0
  #to = 0

  get hasAny(): boolean {
    return this.#to > this.#from
  }

  /** Numbers are added in order; a number that does not follow the last one needs `clear` before. */
  add(batch: NumberedBatch): void {
    const { sequence } = batch
    if (!this.hasAny) this.#from = sequence
    this.#to = sequence + 1
    this.#from = Math.max(this.#from, this.#to - KEPT)
    this.#marks[sequence % KEPT] = markOf(batch.payload)
  }

  compare(batch: NumberedBatch): 'same' | 'other' | 'unknown' {
    const { sequence, payload } = batch
    if (sequence < this.#from || sequence >= this.#to) return 'unknown'
    return this.#marks[sequence % KEPT] === markOf(payload) ? 'same' : 'other'
  }

  clear(): void {
    this.#from = 0
    this.#to = 0
  }
}

function markOf(payload: Uint8Array): number {
  const [tail] = xxh3(payload.subarray(-END_BYTES))
  const [mark] = xxh3(payload.subarray(0, END_BYTES), [tail, payload.length])
  return mark
}
