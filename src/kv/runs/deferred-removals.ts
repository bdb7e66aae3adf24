/**
 * Removals of blocks that would have to be searched for, kept until one pass over the runs of their holder
 * (`RemovalPasses`) finds many of them.
 *
 * What a holder has is therefore what the runs say minus what is deferred here; `RunIndex` asks before it believes the
 * runs. Adding one writes to the end of a list. Before the next store or query, the new ones are added to two filters, of all
 * holders' blocks and of their holder's, which answer nearly all questions; a list is only searched if they do not exclude a
 * block. Owns the time of a pass: when removals of three quarters of the holder's blocks wait, so that a pass reads four blocks
 * per three removals whatever the size of the index, or when there have been many questions.
 */
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { SharpFilter, SmallFilter } from '../words/bloom-filters.ts'
import { SlabMemory } from '../words/slab-memory.ts'
import { WantedHashes } from '../words/wanted-hashes.ts'

/** A pass over fewer blocks than this is not worth its fixed cost. */
const LIMIT_MIN = 32
/** With more, the table of a pass is larger than 2 MB, which is about what the CPU caches hold, and lists take long to search. */
const LIMIT_MAX = 1 << 17
/** A pass is made when this part of the holder's blocks waits, or a smaller one when there are very many. */
const SHARE = 3 / 4
const SHARE_IF_MANY = 1 / 32
const MANY = 1 << 21
/** Blocks that passes read for each block of a query, or hash of a list, that had to be checked: queries must be fast. */
const READS_PER_CHECK = 4
/** Holders that are looked at in search of one that needs a pass. */
const LOOK_MAX = 32
const WORDS_MIN = 64
/** A query is checked in parts, each twice as long as the one before. */
const PART_MIN = 64
/** Making a filter anew costs as much as searching this number of lists. */
const WASTED_MAX = 4
/** A new filter is filled by so many removals whenever one is added. */
const FILL_STEP = 8
/** Adding so many removals to the filters takes a millisecond. With more, each removal adds some. */
const UNFILTERED_MAX = 1 << 18
const FILTER_STEP = 1 << 11

/** What is deferred of a holder. */
export interface Deferred {
  /** The removed hashes, two signed halves each, and their number. A hash may be there more than once. */
  words: Int32Array
  count: number
  /** Number of the first ones that a pass in progress has taken. */
  taken: number
  /** Contains this number of them, from the first one on. */
  filter: SharpFilter
  filtered: number
  /** Number of removals that the filter contains although they have been cancelled; and of hashes searched because of them. */
  stale: number
  wasted: number
  /** Whether the holder had fewer blocks in runs than loose ones after the last pass. */
  isLoose: boolean
  /** Number of removals since the last block that did not have to be searched for. */
  misses: number
  /** Whether a pass is planned or in progress. */
  isDue: boolean
}

/** The number of a holder's blocks in runs (`HolderRuns`). */
interface BlockCounts {
  entriesOf(holder: number): number
}

export class DeferredRemovals {
  readonly #blocks: BlockCounts
  /** By holder. */
  readonly #own: (Deferred | undefined)[] = []
  /** Of the lists. Most are short-lived, but a holder that removes nothing more keeps its own. */
  readonly #lists = new SlabMemory()
  #known = 0
  /** Memory of the lists and filters of all holders. */
  #ownBytes = 0
  /** Holders with removals that the filters do not contain; and about the number of these removals. */
  readonly #unfiltered: number[] = []
  #unfilteredCount = 0
  /** All other hashes here, and some that have gone. */
  #filter = new SmallFilter(0)
  /** Its successor while it is being filled: contains all before a removal (`#fillAt`) of a holder, and those added since. */
  #nextFilter: SmallFilter | null = null
  #fillHolder = 0
  #fillAt = 0
  /** Number of checks, less those that have been the reason for a pass. */
  #checked = 0
  /** Where to look for a holder for such a pass. */
  #hand = 0
  /** Scratch: indexes of the blocks of a query that any holder may have lost, and hashes that are stored again. */
  #suspects = new Int32Array(64)
  readonly #stored = new WantedHashes()
  count = 0

  constructor(blocks: BlockCounts) {
    this.#blocks = blocks
  }

  get bytes(): number {
    return this.#ownBytes + this.#filter.bytes + (this.#nextFilter?.bytes ?? 0)
  }

  /** Whether any holder evicts in no order. */
  get isInUse(): boolean {
    return this.#known > 0
  }

  /** The holders that have removals here. */
  get holders(): number[] {
    return [...this.#own.keys()].filter((holder) => (this.#own[holder]?.count ?? 0) > 0)
  }

  of(holder: number): Deferred | undefined {
    return holder < this.#own.length ? this.#own[holder] : undefined
  }

  /** Call before a holder's first removal. */
  begin(holder: number): Deferred {
    while (this.#own.length <= holder) this.#own.push(undefined)
    const words = this.#lists.take(WORDS_MIN)
    const filter = new SharpFilter(0)
    const own: Deferred = {
      words,
      count: 0,
      taken: 0,
      filter,
      filtered: 0,
      stale: 0,
      wasted: 0,
      isLoose: false,
      misses: 0,
      isDue: false,
    }
    this.#own[holder] = own
    this.#known += 1
    this.#ownBytes += bytesOf(own)
    return own
  }

  /** Number of removals of a holder at which it is time for a pass. */
  limitOf(holder: number): number {
    const share = this.count < MANY ? SHARE : SHARE_IF_MANY
    const part = Math.floor(share * this.#blocks.entriesOf(holder))
    return Math.min(LIMIT_MAX, Math.max(LIMIT_MIN, part))
  }

  /** Adds a removal; returns whether it is time for a pass. */
  add(holder: number, own: Deferred, low: number, high: number): boolean {
    const limit = this.limitOf(holder)
    const at = 2 * own.count
    if (at === own.words.length) this.#growList(own, limit)
    own.words[at] = low
    own.words[at + 1] = high
    if (own.filtered === own.count) this.#unfiltered.push(holder)
    own.count += 1
    this.count += 1
    this.#unfilteredCount += 1
    if (this.#unfilteredCount > UNFILTERED_MAX) this.#filterSome(FILTER_STEP)
    return own.count >= limit
  }

  /** Makes space for as many removals more, or for those before the next pass; few more come until it ends. */
  #growList(own: Deferred, limit: number): void {
    const { count } = own
    const space = count < limit ? Math.min(count, limit - count) : count >> 3
    const { words } = own
    own.words = this.#lists.take(2 * (count + space))
    own.words.set(words)
    this.#lists.give(words)
    this.#ownBytes += 8 * space
  }

  /** Adds all removals to the filters; call before a question. */
  prepare(): void {
    while (this.#unfiltered.length > 0) this.#filterSome(Infinity)
    this.#unfilteredCount = 0
  }

  /** Adds up to so many removals of a holder to the filters. */
  #filterSome(most: number): void {
    const holder = this.#unfiltered.at(-1) as number
    const own = this.of(holder)
    const stop = own === undefined ? 0 : Math.min(own.count, own.filtered + most)
    if (own === undefined || stop === own.count) this.#unfiltered.pop()
    if (own === undefined) return
    const { count, words } = own
    if (count > own.filter.capacity) {
      this.#renewFilter(own, Math.max(count, Math.min(2 * count, this.limitOf(holder))))
    }
    this.#unfilteredCount -= stop - own.filtered
    while (own.filtered < stop) {
      const at = 2 * own.filtered
      own.filter.add(words[at] as number, words[at + 1] as number)
      // First, because a new filter is filled with what the others contain.
      own.filtered += 1
      this.#addToAll(words[at] as number, words[at + 1] as number)
    }
  }

  /** Makes a holder's filter anew, with space for so many removals. */
  #renewFilter(own: Deferred, space: number): void {
    const { filtered, words } = own
    const filter = new SharpFilter(space)
    for (let i = 0; i < 2 * filtered; i += 2) filter.add(words[i] as number, words[i + 1] as number)
    this.#ownBytes += filter.bytes - own.filter.bytes
    own.filter = filter
    own.stale = 0
    own.wasted = 0
  }

  #addToAll(low: number, high: number): void {
    this.#filter.add(low, high)
    if (this.#nextFilter !== null) {
      this.#nextFilter.add(low, high)
      this.#fillFilter(this.#nextFilter)
    } else if (this.#filter.left < 0) this.#replaceFilter()
  }

  /** The removals that a pass has taken have been made; the holder has so many loose blocks. */
  done(holder: number, loose: number): void {
    const before = this.of(holder)
    if (before === undefined) return
    const blocks = this.#blocks.entriesOf(holder)
    const left = before.words.slice(2 * before.taken, 2 * before.count)
    this.delete(holder)
    if (blocks === 0 && left.length === 0) return
    const own = this.begin(holder)
    own.isLoose = loose > blocks
    for (let at = 0; at < left.length; at += 2) {
      this.add(holder, own, left[at] as number, left[at + 1] as number)
    }
  }

  /** A holder that needs a pass because of checks, or -1. */
  due(): number {
    for (let look = 0; look < LOOK_MAX && this.#checked > 0; look++) {
      this.#hand = this.#hand + 1 < this.#own.length ? this.#hand + 1 : 0
      const own = this.#own[this.#hand]
      if (own === undefined || own.count === 0 || own.isDue) continue
      const blocks = this.#blocks.entriesOf(this.#hand)
      if (READS_PER_CHECK * this.#checked < blocks) break
      this.#checked -= blocks / READS_PER_CHECK
      return this.#hand
    }
    return -1
  }

  /** Forgets the removals of a holder, which has left or has no blocks in runs. */
  delete(holder: number): void {
    const own = this.of(holder)
    if (own === undefined) return
    this.#own[holder] = undefined
    this.#lists.give(own.words)
    this.#moveOut()
    this.#known -= 1
    this.#ownBytes -= bytesOf(own)
    this.count -= own.count
    if (this.count > 0) return
    this.#unfiltered.length = 0
    this.#unfilteredCount = 0
    this.#filter = new SmallFilter(0)
    this.#nextFilter = null
    this.#checked = 0
  }

  #moveOut(): void {
    const buffer = this.#lists.toEmpty()
    if (buffer === null) return
    for (const own of this.#own) {
      if (own?.words.buffer === buffer) own.words = this.#lists.move(own.words)
    }
  }

  /** Whether the holder has lost a block (signed halves) that the runs may say it has. */
  has(holder: number, low: number, high: number): boolean {
    const own = this.of(holder)
    if (own === undefined || own.count === 0) return false
    this.prepare()
    return this.#isIn(own, low, high)
  }

  /** Whether a prepared list contains a hash. */
  #isIn(own: Deferred, low: number, high: number): boolean {
    if (!own.filter.has(low, high)) return false
    const { count, words } = own
    let at = 2 * count - 2
    while (at >= 0 && (words[at] !== low || words[at + 1] !== high)) at -= 2
    this.#checked += count - (at >> 1)
    if (at >= 0) return true
    own.wasted += count
    // A chain that is stored again is also queried again: each of its blocks would be searched for each time.
    if (own.stale > 0 && own.wasted > WASTED_MAX * count)
      this.#renewFilter(own, own.filter.capacity)
    return false
  }

  /** The holder has stored these blocks (again): they are not removed any more. False if none was here. */
  cancel(holder: number, hashes: Uint32Array): boolean {
    const own = this.of(holder)
    if (own === undefined || own.count === 0) return false
    this.prepare()
    let first = 0
    const isNotIn = (at: number): boolean =>
      !own.filter.has((hashes[at] as number) | 0, (hashes[at + 1] as number) | 0)
    while (first < hashes.length && isNotIn(first)) first += 2
    if (first === hashes.length) return false
    this.#stored.reset(hashes, first >> 1, hashes.length >> 1)
    const { count, taken, words } = own
    let kept = 0
    for (let i = 0; i < 2 * count; i += 2) {
      if (i === 2 * taken) own.taken = kept >> 1
      const low = words[i] as number
      const high = words[i + 1] as number
      if (this.#stored.has(low, high)) continue
      words[kept] = low
      words[kept + 1] = high
      kept += 2
    }
    if (taken === count) own.taken = kept >> 1
    this.#checked += count
    // Others have moved.
    if (this.#fillHolder === holder) this.#fillAt = 0
    own.count = kept >> 1
    own.filtered = own.count
    own.stale += count - own.count
    this.count -= count - own.count
    return own.count < count
  }

  /** Shortens what a query found of `hashes` to what the holders have; it has found at most `depth` blocks. */
  shorten(hashes: Uint32Array, depth: number, matches: PrefixMatches): void {
    this.prepare()
    let part = PART_MIN
    for (let from = 0; from < depth; from += part, part *= 2) {
      const to = Math.min(depth, from + part)
      this.#checked += to - from
      // Most holders of a long prompt have lost a block of its first parts.
      if (!this.#shortenPart(hashes, from, to, matches)) break
    }
    const { device, holders } = matches
    let kept = 0
    for (let k = 0; k < matches.count; k++) {
      const holder = holders[k] as number
      // Holders of nothing are not listed.
      if (device[holder] !== 0) holders[kept++] = holder
    }
    matches.count = kept
  }

  /** Considers the blocks `from` .. `to`; returns whether a holder that may have lost one has more of them. */
  #shortenPart(hashes: Uint32Array, from: number, to: number, matches: PrefixMatches): boolean {
    const { count, device, holders } = matches
    const suspects = this.#suspectsOf(hashes, from, to)
    let isMore = false
    for (let k = 0; k < count; k++) {
      const holder = holders[k] as number
      const own = this.of(holder)
      const found = device[holder] as number
      if (own === undefined || own.count === 0 || found <= from) continue
      device[holder] = this.#heldOf(own, hashes, suspects, found)
      if (found > to && device[holder] === found) isMore = true
    }
    return isMore
  }

  /** The index of the first suspect below `found` that the holder has lost, or `found`. */
  #heldOf(own: Deferred, hashes: Uint32Array, suspects: number, found: number): number {
    for (let n = 0; n < suspects; n++) {
      const i = this.#suspects[n] as number
      if (i >= found) break
      if (this.#isIn(own, (hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0))
        return i
    }
    return found
  }

  /** Writes the indexes of the hashes `from` .. `to` that any holder may have lost to `#suspects`; returns their number. */
  #suspectsOf(hashes: Uint32Array, from: number, to: number): number {
    if (this.#suspects.length < to - from) this.#suspects = new Int32Array(2 * (to - from))
    const suspects = this.#suspects
    const filter = this.#filter
    let found = 0
    for (let i = from; i < to; i++) {
      suspects[found] = i
      found += filter.bitOf((hashes[2 * i] as number) | 0, (hashes[2 * i + 1] as number) | 0)
    }
    return found
  }

  /** Begins a filter for all removals that wait, with space for as many more. */
  #replaceFilter(): void {
    this.#nextFilter = new SmallFilter(2 * this.count)
    this.#fillHolder = 0
    this.#fillAt = 0
  }

  #fillFilter(filter: SmallFilter): void {
    for (let left = FILL_STEP; left > 0; left--) {
      const own = this.of(this.#fillHolder)
      if (own !== undefined && this.#fillAt < own.filtered) {
        const at = 2 * this.#fillAt
        filter.add(own.words[at] as number, own.words[at + 1] as number)
        this.#fillAt += 1
        continue
      }
      this.#fillHolder += 1
      this.#fillAt = 0
      if (this.#fillHolder < this.#own.length) continue
      this.#filter = filter
      this.#nextFilter = null
      return
    }
  }
}

const bytesOf = ({ filter, words }: Deferred): number => words.byteLength + filter.bytes
