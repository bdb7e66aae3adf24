/**
 * How many requests need a place on each group of ranks, and how many of them to expect on each rank: a request of a group
 * may go to any of its ranks, so each of them gets the same part of it.
 */
import { ANYWHERE } from '../ranks/rank-group.ts'
import type { RankGroup } from '../ranks/rank-group.ts'

interface Load {
  readonly group: RankGroup
  readonly ranks: ReadonlySet<number>
  count: number
}

/** Of a place: the parts of a request on the ranks of its group do not add up to exactly one. */
export const ROUNDING = 1e-6

export class GroupLoads {
  #count = 0
  #anywhere = 0
  /** By key, of groups that are not all ranks. */
  readonly #groups = new Map<string, Load>()
  /** Those of more than one rank, which may contain other groups. */
  readonly #wide = new Map<string, Load>()
  readonly #byRank = new Map<number, number>()

  get count(): number {
    return this.#count
  }

  /** Some may not go to all ranks. */
  get hasGroups(): boolean {
    return this.#groups.size > 0
  }

  /** Those that may go to all ranks. */
  get anywhere(): number {
    return this.#anywhere
  }

  add(group: RankGroup, change: number): void {
    const { key, slots } = group
    this.#count += change
    if (slots === null) {
      this.#anywhere += change
      return
    }
    const load = this.#groups.get(key) ?? { group, ranks: new Set(slots), count: 0 }
    load.count += change
    this.#keep(load)
    for (const slot of slots) {
      const expected = (this.#byRank.get(slot) ?? 0) + change / slots.length
      // What is left of a sum of fractions.
      if (Math.abs(expected) < ROUNDING) this.#byRank.delete(slot)
      else this.#byRank.set(slot, expected)
    }
  }

  countOf({ key, slots }: RankGroup): number {
    return slots === null ? this.#anywhere : (this.#groups.get(key)?.count ?? 0)
  }

  /** How many requests of the group, and of those that contain it, to expect on each of its ranks. */
  around({ key, slots }: RankGroup): number {
    if (slots === null) return 0
    const own = this.#groups.get(key)
    let expected = own === undefined ? 0 : own.count / own.ranks.size
    for (const [other, { ranks, count }] of this.#wide) {
      if (other !== key && containsAll(ranks, slots)) expected += count / ranks.size
    }
    return expected
  }

  /**
   * Of the groups that may not go to all ranks of a group: those that take its places for sure. `around`: of that group; it
   * is the same for each of its ranks, of which there may be a thousand.
   */
  on(slot: number, around: number): number {
    return Math.max((this.#byRank.get(slot) ?? 0) - around, 0)
  }

  /** The groups of more ranks that contain all of `group`. */
  wider({ key, slots }: RankGroup): RankGroup[] {
    if (slots === null) return []
    const found = this.#anywhere > 0 ? [ANYWHERE] : []
    for (const [other, { group, ranks }] of this.#wide) {
      if (other !== key && containsAll(ranks, slots)) found.push(group)
    }
    return found
  }

  #keep(load: Load): void {
    const { key } = load.group
    if (load.count === 0) {
      this.#groups.delete(key)
      this.#wide.delete(key)
      return
    }
    this.#groups.set(key, load)
    if (load.ranks.size > 1) this.#wide.set(key, load)
  }
}

function containsAll(ranks: ReadonlySet<number>, slots: readonly number[]): boolean {
  return slots.every((slot) => ranks.has(slot))
}
