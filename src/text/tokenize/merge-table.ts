/**
 * The merges of a BPE vocabulary: pair of ids → rank, rank → id of the merged token. Open addressing in typed arrays,
 * because a quarter of a million entries must be built before the first request.
 */
import { textOf } from '../../base/index.ts'
import type { PairRanks } from './merge-loop.ts'

export class MergeTable implements PairRanks {
  readonly #mask: number
  readonly #lefts: Int32Array
  readonly #rights: Int32Array
  readonly #ranks: Int32Array
  readonly #merged: Int32Array

  constructor(capacity: number) {
    let slots = 16
    while (slots < capacity * 2) slots *= 2
    this.#mask = slots - 1
    this.#lefts = new Int32Array(slots).fill(-1)
    this.#rights = new Int32Array(slots)
    this.#ranks = new Int32Array(slots)
    this.#merged = new Int32Array(capacity)
  }

  /** Of two equal pairs the first counts. */
  add(left: number, right: number, rank: number, merged: number): void {
    this.#merged[rank] = merged
    let slot = this.#slotOf(left, right)
    while (this.#lefts[slot] !== -1) {
      if (this.#lefts[slot] === left && this.#rights[slot] === right) return
      slot = (slot + 1) & this.#mask
    }
    this.#lefts[slot] = left
    this.#rights[slot] = right
    this.#ranks[slot] = rank
  }

  rank(left: number, right: number): number {
    let slot = this.#slotOf(left, right)
    for (;;) {
      const found = this.#lefts[slot]
      if (found === -1) return -1
      if (found === left && this.#rights[slot] === right) return this.#ranks[slot]!
      slot = (slot + 1) & this.#mask
    }
  }

  merged(rank: number): number {
    return this.#merged[rank]!
  }

  #slotOf(left: number, right: number): number {
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)
    hash ^= hash >>> 15
    return hash & this.#mask
  }
}

/** Pairs as `["a", "b"]` or, in older files, as `"a b"`. */
export function readMerges(value: unknown, ids: ReadonlyMap<string, number>): MergeTable {
  if (!Array.isArray(value)) throw new Error('the merges of the vocabulary are missing')
  const table = new MergeTable(value.length)
  value.forEach((pair: unknown, rank) => {
    const [left, right] = splitPair(pair)
    const leftId = ids.get(left)
    const rightId = ids.get(right)
    const merged = ids.get(left + right)
    if (leftId === undefined || rightId === undefined || merged === undefined) return
    table.add(leftId, rightId, rank, merged)
  })
  return table
}

function splitPair(pair: unknown): [string, string] {
  if (Array.isArray(pair)) return [textOf(pair[0]), textOf(pair[1])]
  const text = textOf(pair)
  // A token that is itself a blank only occurs in the list form; a pair never begins with an empty name.
  const blank = text.indexOf(' ', 1)
  if (blank < 0) throw new Error('a merge without two names')
  return [text.slice(0, blank), text.slice(blank + 1)]
}
