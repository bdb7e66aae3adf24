/**
 * Extends the result of a query by a lower storage tier: blocks that follow those of the upper tiers without a gap.
 *
 * Chains in a lower tier need not begin at the start of a prompt, so every block is anchored or loose, and the walk
 * continues after blocks that no holder has.
 */
import type { LooseBlocks } from '../loose/loose-blocks.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'
import { PAGE_BITS } from '../arena/block-arena.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, END, HOLDING, RUN_STRIDE } from './run-store.ts'

export class RunExtension {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings
  readonly #loose: LooseBlocks

  constructor(blocks: RunBlocks, holdings: RunHoldings, loose: LooseBlocks) {
    this.#blocks = blocks
    this.#holdings = holdings
    this.#loose = loose
  }

  /**
   * Adds to `own` (`matches.host` or `matches.disk`) the blocks that follow without a gap after each holder's blocks
   * in the upper tiers: `matches.device` and, if given, `upper`. Only for an index with `hasOrphans`.
   */
  extend(
    hashes: Uint32Array,
    matches: PrefixMatches,
    own: Int32Array,
    upper: Int32Array | null,
  ): void {
    if (this.#holdings.entries + this.#loose.entries === 0) return
    matches.hasLower = true
    const { anchors, arena, reader, runs } = this.#blocks
    const count = hashes.length >> 1
    const { device } = matches
    for (let i = 0; i < count;) {
      const position = anchors.lookup(
        (hashes[2 * i] as number) | 0,
        (hashes[2 * i + 1] as number) | 0,
      )
      if (position < 0) {
        this.#extendLoose(hashes, i, matches, own, upper)
        i += 1
        continue
      }
      const run = arena.runOf(position)
      const at = arena.offsetOf(position)
      const limit = Math.min((runs.records[run * RUN_STRIDE + END] as number) - at, count - i)
      const stop = at + reader.match(position >> PAGE_BITS, at, limit, hashes, i)
      const shift = at - i
      const list = runs.holdings(run)
      let k = runs.firstHolding(run)
      const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
      for (; k < last; k += HOLDING) {
        const holder = list[k] as number
        const above = (device[holder] as number) + (upper === null ? 0 : (upper[holder] as number))
        const reached = above + (own[holder] as number)
        if (reached < i || reached + shift >= stop) continue
        const to = Math.min(this.#holdings.endOf(list[k + 1] as number, reached + shift), stop)
        if (to - shift === reached) continue
        if (reached === 0) matches.add(holder)
        own[holder] = to - shift - above
      }
      i = stop - shift
    }
  }

  /** Like `extend`, for one loose block. */
  #extendLoose(
    hashes: Uint32Array,
    i: number,
    matches: PrefixMatches,
    own: Int32Array,
    upper: Int32Array | null,
  ): void {
    const low = (hashes[2 * i] as number) | 0
    if (!this.#loose.lookup(low, (hashes[2 * i + 1] as number) | 0)) return
    for (const holder of this.#loose.holders()) {
      const above =
        (matches.device[holder] as number) + (upper === null ? 0 : (upper[holder] as number))
      const reached = above + (own[holder] as number)
      if (reached !== i) continue
      if (reached === 0) matches.add(holder)
      own[holder] = i + 1 - above
    }
  }
}
