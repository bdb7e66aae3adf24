/**
 * The engines' own hashes of all holders that use them: a table for each (`EngineNames`), whose reads overlap.
 *
 * Owns which holders have a table. It is dropped with its last name or its holder.
 */
import { AHEAD_MAX } from '../loose/loose-table.ts'
import { SlabMemory } from '../words/slab-memory.ts'
import { EngineNames } from './engine-names.ts'
import { NameReads } from './name-reads.ts'

export class HolderNames {
  readonly #tables: (EngineNames | undefined)[] = []
  readonly #memory = new SlabMemory()
  readonly #reads = new NameReads()
  /** Scratch of `take`. */
  readonly #holders = new Int32Array(AHEAD_MAX)
  /** Number of holders that have a table, and the memory of these. */
  count = 0
  bytes = 0

  of(holder: number): EngineNames | undefined {
    return this.#tables[holder]
  }

  /** A tier of the holder has stored blocks with these names and these hashes of Baton; notes those that differ. */
  add(holder: number, names: Uint32Array, own: Uint32Array, tier: number): void {
    let table = this.#tables[holder]
    if (table === undefined) {
      if (own.every((word, i) => word === names[i])) return
      table = this.#create(holder)
    }
    const reads = this.#reads
    const count = own.length >> 1
    const before = table.bytes
    for (let from = 0; from < count; from += AHEAD_MAX) {
      const some = Math.min(AHEAD_MAX, count - from)
      for (let k = 0; k < some; k++) table.locate(names, from + k, reads, k)
      reads.prefetch(some)
      for (let k = 0, word = 2 * from; k < some; k++, word += 2) {
        const low = own[word] as number
        const high = own[word + 1] as number
        if (names[word] === low && names[word + 1] === high) continue
        table.add(reads, k, low | 0, high | 0, tier)
      }
    }
    this.bytes += table.bytes - before
  }

  #create(holder: number): EngineNames {
    while (this.#tables.length <= holder) this.#tables.push(undefined)
    const table = new EngineNames(this.#memory)
    this.#tables[holder] = table
    this.count += 1
    this.bytes += table.bytes
    return table
  }

  /** A tier of the holder has removed blocks `from` .. `to`: replaces their names by Baton's hashes. */
  take(holder: number, hashes: Uint32Array, from: number, to: number, tier: number): void {
    if (this.#tables[holder] === undefined) return
    this.#holders.fill(holder)
    for (let i = from; i < to; i += AHEAD_MAX) {
      this.takeEach(this.#holders, hashes, i, Math.min(to, i + AHEAD_MAX), tier)
    }
  }

  /** Like `take`, for at most 32 blocks of several holders. */
  takeEach(holders: Int32Array, hashes: Uint32Array, from: number, to: number, tier: number): void {
    const tables = this.#tables
    const reads = this.#reads
    const count = to - from
    for (let k = 0; k < count; k++) {
      const table = tables[holders[k] as number]
      if (table === undefined) reads.words[3 * k] = 0
      else table.locate(hashes, from + k, reads, k)
    }
    reads.prefetch(count)
    let isSparse = false
    for (let k = 0; k < count; k++) {
      const table = tables[holders[k] as number]
      if (table?.take(reads, k, hashes, from + k, tier) === true) isSparse = true
    }
    if (!isSparse) return
    for (let k = 0; k < count; k++) this.#tidy(holders[k] as number)
  }

  #tidy(holder: number): void {
    const table = this.#tables[holder]
    if (table === undefined) return
    const before = table.bytes
    table.tidy()
    this.bytes += table.bytes - before
    if (table.count === 0) this.delete(holder)
    else this.#moveOut()
  }

  #moveOut(): void {
    const buffer = this.#memory.toEmpty()
    if (buffer === null) return
    for (const table of this.#tables) table?.moveFrom(buffer)
    this.#reads.forget()
  }

  delete(holder: number): void {
    const table = this.#tables[holder]
    if (table === undefined) return
    this.#tables[holder] = undefined
    this.count -= 1
    this.bytes -= table.bytes
    table.drop()
    this.#moveOut()
    this.#reads.forget()
  }
}
