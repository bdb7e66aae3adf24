/**
 * Eviction of one storage tier when memory is used up: the chains that were queried or stored longest ago.
 *
 * Runs are sampled in the order of their records; the least recently used run of a sample is evicted for all its
 * holders. A run that other runs begin after stays until those are gone. Loose blocks are evicted in groups, the
 * oldest first.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { RUN_STRIDE, USED } from './run-store.ts'

/** Number of runs compared per sample. */
const SAMPLE = 32
/** Maximum number of records read for a sample. */
const LOOK_MAX = 512

export class RunEviction {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks
  #hand = 0
  /** Number of blocks evicted so far. */
  given = 0

  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
  }

  /** Memory that is touched and free, but can only be used by runs again. */
  get reusableBytes(): number {
    return this.#blocks.arena.bytesFree
  }

  /** Evicts the oldest chain; false if there is nothing to evict. */
  evict(): boolean {
    const run = this.#oldestRun()
    if (run < 0) return this.evictLoose()
    if (this.#loose.count > 0) {
      const { tick, oldestTick } = this.#loose.upkeep
      const age = (tick - (this.#blocks.runs.records[run * RUN_STRIDE + USED] as number)) | 0
      if (((tick - oldestTick) | 0) >= age) return this.evictLoose()
    }
    this.#evictRun(run)
    return true
  }

  /** Evicts the oldest loose blocks, whose memory can be returned; false if there are none. */
  evictLoose(): boolean {
    const before = this.#loose.count
    if (before === 0 || !this.#loose.upkeep.evictOldest()) return false
    this.given += before - this.#loose.count
    return true
  }

  /** Evicts the oldest run; false if there is none. */
  evictRuns(): boolean {
    const run = this.#oldestRun()
    if (run < 0) return false
    this.#evictRun(run)
    return true
  }

  #evictRun(run: number): void {
    this.given += this.#blocks.runs.length(run)
    this.#holdings.dropRun(run)
  }

  #oldestRun(): number {
    const { branches, runs } = this.#blocks
    if (runs.live === 0) return -1
    const now = this.#loose.upkeep.tick
    let oldest = -1
    let age = -1
    let fallback = -1
    let sampled = 0
    const looks = Math.max(LOOK_MAX, SAMPLE)
    for (let look = 0; look < runs.top && sampled < SAMPLE; look++) {
      if (look >= looks && oldest >= 0) break
      this.#hand = this.#hand + 1 < runs.top ? this.#hand + 1 : 0
      const run = this.#hand
      if (runs.isFree(run)) continue
      fallback = run
      const own = (now - (runs.records[run * RUN_STRIDE + USED] as number)) | 0
      if (own <= age || branches.isRunBranched(run)) continue
      oldest = run
      age = own
      sampled += 1
    }
    return oldest >= 0 ? oldest : fallback
  }
}
