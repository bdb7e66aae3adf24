/** Checks the invariants of a run index from scratch; for tests, and for debugging a live index. */
import { assert } from '../../base/index.ts'
import { NEXT, PAGE_BITS, PAGE_MASK, PAGE_STRIDE } from '../arena/block-arena.ts'
import { LOOSE } from './run-branches.ts'
import type { RunBlocks } from './run-blocks.ts'
import type { RunIndex } from './run-index.ts'
import { COUNT, END, FIRST_PAGE, HOLDING, PARENT, RUN_STRIDE, START } from './run-store.ts'

/**
 * Throws if an invariant is violated. `isOfChains: false`: events named blocks in orders that no chain has, so that a
 * block may be in more than one place; counts and links are checked all the same.
 */
export function checkRuns(index: RunIndex, isOfChains = true): void {
  const { blocks, holdings } = index.parts
  const { runs } = blocks
  let blockCount = 0
  const entries: number[] = []
  let detached = 0
  for (let run = 0; run < runs.top; run++) {
    if (runs.isFree(run)) continue
    const start = runs.records[run * RUN_STRIDE + START] as number
    const lowest = holdings.lowest(run)
    assert(lowest >= start && lowest >> PAGE_BITS === start >> PAGE_BITS, 'the first page is held')
    assert(holdings.highest(run) === runs.records[run * RUN_STRIDE + END], 'the last block is held')
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    const seen = new Set<number>()
    for (; k < last; k += HOLDING) {
      const held = list[k + 1] as number
      assert(held < 0 || held > start, 'no holding is empty')
      const holder = list[k] as number
      assert(!seen.has(holder), 'a holder has one holding in a run')
      seen.add(holder)
      entries[holder] = (entries[holder] ?? 0) + holdings.countOf(run, held)
    }
    blockCount += runs.length(run)
    const parent = runs.records[run * RUN_STRIDE + PARENT] as number
    if (parent === -1) detached += 1
    if (parent > 0) assert(blocks.arena.runOf(parent - 1) >= 0, `run ${run} follows a live block`)
    checkBlocks(blocks, run, isOfChains)
  }
  assert(blockCount === blocks.count, `${blockCount} blocks, counted ${blocks.count}`)
  let all = 0
  for (let holder = 0; holder < holdings.holders.holderCount; holder++) {
    const [own = 0, counted] = [entries[holder], holdings.holders.entriesOf(holder)]
    assert(own === counted, `${own} entries of holder ${holder}, counted ${counted}`)
    all += own
  }
  assert(all === holdings.entries, `${all} entries, counted ${holdings.entries}`)
  assert(detached === blocks.branches.detached, `${detached} runs are detached`)
  if (isOfChains) checkPlaces(index)
  checkLoose(index)
  if (blockCount > 0) return
  assert(blocks.arena.pagesLive === 0 && blocks.anchors.count === 0, 'an empty index keeps nothing')
}

/** No block is both loose and in a run. */
function checkPlaces(index: RunIndex): void {
  const { blocks, loose } = index.parts
  const { anchors, arena, runs } = blocks
  for (let run = 0; run < runs.top; run++) {
    if (runs.isFree(run)) continue
    let page = runs.records[run * RUN_STRIDE + FIRST_PAGE] as number
    const end = runs.records[run * RUN_STRIDE + END] as number
    for (let at = runs.records[run * RUN_STRIDE + START] as number; at < end; at++) {
      const position = (page << PAGE_BITS) + (at & PAGE_MASK)
      const [low, high] = [
        arena.words[2 * position] as number,
        arena.words[2 * position + 1] as number,
      ]
      assert(!loose.lookup(low, high), `block ${position} is not loose, too`)
      if ((at & PAGE_MASK) === PAGE_MASK) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
    }
  }
  for (const { low, high } of loose.each()) {
    assert(anchors.lookup(low, high) < 0, `loose block ${low} ${high} does not begin a run`)
  }
}

/** A run after a loose block refers to an existing one, and the counts are right. */
function checkLoose(index: RunIndex): void {
  const { blocks, loose } = index.parts
  const { runs } = blocks
  let afterLoose = 0
  for (let run = 0; run < runs.top; run++) {
    if (!runs.isFree(run) && runs.records[run * RUN_STRIDE + PARENT] === LOOSE) afterLoose += 1
  }
  let found = 0
  let followers = 0
  for (const { low, high, holders, isFollowed } of loose.each()) {
    assert(loose.lookup(low, high), `loose block ${low} ${high} is in the table`)
    if (isFollowed) followers += blocks.branches.after(low, high).length
    found += holders
  }
  assert(followers === afterLoose, `${afterLoose} runs follow loose blocks, ${followers} live ones`)
  assert(found === loose.entries, `${found} loose entries, counted ${loose.entries}`)
}

function checkBlocks(blocks: RunBlocks, run: number, isOfChains: boolean): void {
  const { anchors, arena, runs } = blocks
  const record = run * RUN_STRIDE
  const start = runs.records[record + START] as number
  const end = runs.records[record + END] as number
  let page = runs.records[record + FIRST_PAGE] as number
  for (let at = start; at < end; at++) {
    const position = (page << PAGE_BITS) + (at & PAGE_MASK)
    assert(arena.runOf(position) === run, `page ${page} belongs to run ${run}`)
    assert(arena.offsetOf(position) === at, `page ${page} is at its offset`)
    const low = arena.words[2 * position] as number
    const found = anchors.lookup(low, arena.words[2 * position + 1] as number)
    if (isOfChains) {
      assert(found < 0 || found === position, `block ${position} is in one run only`)
    }
    if (at === start || !blocks.isSparse(run)) assert(found >= 0, `block ${position} is anchored`)
    if ((at & PAGE_MASK) === PAGE_MASK) page = arena.pages[page * PAGE_STRIDE + NEXT] as number
  }
}
