/**
 * Reads the blocks of runs without changing them: compares them with hashes, and finds single blocks.
 *
 * A location in a run is an offset and the page that contains it.
 */
import { INDEX, NEXT, PAGE_BITS, PAGE_BLOCKS, PAGE_MASK } from '../arena/block-arena.ts'
import { PAGE_STRIDE, PREVIOUS } from '../arena/block-arena.ts'
import type { BlockArena } from '../arena/block-arena.ts'
import { END, FIRST_PAGE, LAST_PAGE, RUN_STRIDE, START } from './run-store.ts'
import type { RunStore } from './run-store.ts'
import type { WantedHashes } from '../words/wanted-hashes.ts'

export class RunReader {
  readonly #arena: BlockArena
  readonly #runs: RunStore
  /** Page of the last block that `match` or `matchBackward` found equal. */
  matchedPage = 0

  constructor(arena: BlockArena, runs: RunStore) {
    this.#arena = arena
    this.#runs = runs
  }

  /**
   * Number of blocks (at most `limit`) from a location on that equal the hashes from `i` on. Both are chains, so
   * equality of the last hash of a page means equality of the page.
   */
  match(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.#arena
    let equal = 0
    while (equal < limit) {
      const slot = (at + equal) & PAGE_MASK
      const chunk = Math.min(PAGE_BLOCKS - slot, limit - equal)
      const block = 2 * ((page << PAGE_BITS) + slot)
      const query = 2 * (i + equal)
      let high = 2 * (chunk - 1)
      if (
        blocks[block + high] === hashes[query + high] &&
        blocks[block + high + 1] === hashes[query + high + 1]
      ) {
        equal += chunk
        this.matchedPage = page
        if (equal < limit) page = pages[page * PAGE_STRIDE + NEXT] as number
        continue
      }
      let low = 0
      while (low < high) {
        const middle = ((low + high) >> 2) << 1
        if (
          blocks[block + middle] === hashes[query + middle] &&
          blocks[block + middle + 1] === hashes[query + middle + 1]
        ) {
          low = middle + 2
        } else high = middle
      }
      if (low > 0) this.matchedPage = page
      return equal + (low >> 1)
    }
    return equal
  }

  /** Number of hashes from `i` on (at most `limit`) that equal, one by one, the blocks before a location, backwards. */
  matchBackward(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.#arena
    let equal = 0
    while (equal < limit) {
      let slot = (at - equal) & PAGE_MASK
      if (slot === 0) {
        page = pages[page * PAGE_STRIDE + PREVIOUS] as number
        slot = PAGE_BLOCKS
      }
      let block = 2 * ((page << PAGE_BITS) + slot - 1)
      let query = 2 * (i + equal)
      const begin = query
      const last = query + 2 * Math.min(slot, limit - equal)
      while (
        query < last &&
        blocks[block] === hashes[query] &&
        blocks[block + 1] === hashes[query + 1]
      ) {
        query += 2
        block -= 2
      }
      if (query > begin) this.matchedPage = page
      equal += (query - begin) >> 1
      if (query < last) break
    }
    return equal
  }

  /** Number of hashes from `i` on (at most `limit`) that equal, one by one, the blocks from a location on. */
  matchForward(page: number, at: number, limit: number, hashes: Uint32Array, i: number): number {
    const { hashes: blocks, pages } = this.#arena
    let equal = 0
    while (equal < limit) {
      const slot = (at + equal) & PAGE_MASK
      if (slot === 0) page = pages[page * PAGE_STRIDE + NEXT] as number
      const block = 2 * ((page << PAGE_BITS) + slot)
      const query = 2 * (i + equal)
      if (blocks[block] !== hashes[query] || blocks[block + 1] !== hashes[query + 1]) break
      equal += 1
    }
    return equal
  }

  /** Takes wanted blocks before a location, backwards, until one is not wanted; at most `limit`. */
  takeBackward(page: number, at: number, limit: number, wanted: WantedHashes): number {
    const { pages, words } = this.#arena
    let taken = 0
    for (; taken < limit; taken++) {
      let slot = (at - taken) & PAGE_MASK
      if (slot === 0) {
        page = pages[page * PAGE_STRIDE + PREVIOUS] as number
        slot = PAGE_BLOCKS
      }
      const block = 2 * ((page << PAGE_BITS) + slot - 1)
      if (!wanted.take(words[block] as number, words[block + 1] as number)) break
    }
    return taken
  }

  /** Takes wanted blocks from a location on, until one is not wanted; at most `limit`. */
  takeForward(page: number, at: number, limit: number, wanted: WantedHashes): number {
    const { pages, words } = this.#arena
    let taken = 0
    for (; taken < limit; taken++) {
      const slot = (at + taken) & PAGE_MASK
      if (slot === 0) page = pages[page * PAGE_STRIDE + NEXT] as number
      const block = 2 * ((page << PAGE_BITS) + slot)
      if (!wanted.take(words[block] as number, words[block + 1] as number)) break
    }
    return taken
  }

  /** Position of the block at an offset, starting from a page of the same run. */
  positionNear(page: number, at: number): number {
    const { pages } = this.#arena
    const index = at >> PAGE_BITS
    while ((pages[page * PAGE_STRIDE + INDEX] as number) > index) {
      page = pages[page * PAGE_STRIDE + PREVIOUS] as number
    }
    while ((pages[page * PAGE_STRIDE + INDEX] as number) < index) {
      page = pages[page * PAGE_STRIDE + NEXT] as number
    }
    return (page << PAGE_BITS) + (at & PAGE_MASK)
  }

  /** Position of a hash (signed halves) in a run, by comparing every block, or -1. */
  positionIn(run: number, low: number, high: number): number {
    const { pages, words } = this.#arena
    const { records } = this.#runs
    const end = records[run * RUN_STRIDE + END] as number
    let page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    for (let at = records[run * RUN_STRIDE + START] as number; at < end;) {
      const stop = Math.min(end, (at | PAGE_MASK) + 1)
      let block = 2 * ((page << PAGE_BITS) + (at & PAGE_MASK))
      const last = block + 2 * (stop - at)
      for (; block < last; block += 2) {
        if (words[block] === low && words[block + 1] === high) return block >> 1
      }
      at = stop
      page = pages[page * PAGE_STRIDE + NEXT] as number
    }
    return -1
  }

  /** Position of the first block of a run. */
  firstOf(run: number): number {
    const { records } = this.#runs
    const at = records[run * RUN_STRIDE + START] as number
    const page = records[run * RUN_STRIDE + FIRST_PAGE] as number
    return (page << PAGE_BITS) + (at & PAGE_MASK)
  }

  /** Position of the last block of a run. */
  lastOf(run: number): number {
    const { records } = this.#runs
    const at = (records[run * RUN_STRIDE + END] as number) - 1
    const page = records[run * RUN_STRIDE + LAST_PAGE] as number
    return (page << PAGE_BITS) + (at & PAGE_MASK)
  }
}
