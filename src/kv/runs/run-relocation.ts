/**
 * Growth of a run that has a share of a page: beyond the share it moves to a larger one, and from there to pages.
 *
 * Without this a chain that grows by short events would become many short runs, and each of them costs a look-up per
 * query. The run keeps its number, but its blocks have new positions and offsets.
 */
import type { RunBlocks } from './run-blocks.ts'
import type { RunHoldings } from './run-holdings.ts'
import { COUNT, HOLDING, LAST_PAGE, RUN_STRIDE } from './run-store.ts'

/** A run with more holders is not moved, because every holding changes. */
const HOLDERS_MAX = 64

export class RunRelocation {
  readonly #blocks: RunBlocks
  readonly #holdings: RunHoldings

  constructor(blocks: RunBlocks, holdings: RunHoldings) {
    this.#blocks = blocks
    this.#holdings = holdings
  }

  /** Whether so many blocks fit at the end of a run after `makeRoom`. */
  canGrow(run: number, count: number): boolean {
    if (this.#hasRoom(run, count)) return true
    const { runs } = this.#blocks
    if (!this.#blocks.hasPagesFor(runs.length(run) + count)) return false
    return (
      (runs.records[run * RUN_STRIDE + COUNT] as number) <= HOLDERS_MAX &&
      this.#holdings.areHeads(run)
    )
  }

  #hasRoom(run: number, count: number): boolean {
    const { arena, reader, runs } = this.#blocks
    const page = runs.records[run * RUN_STRIDE + LAST_PAGE] as number
    return !arena.isShared(page) || count <= arena.roomAfter(reader.lastOf(run))
  }

  /** Makes space for so many blocks at the end of a run; its blocks may move. */
  makeRoom(run: number, count: number): void {
    if (this.#hasRoom(run, count)) return
    const { anchors, reader, runs } = this.#blocks
    const change = this.#blocks.move(run, runs.length(run) + count)
    const list = runs.holdings(run)
    let k = runs.firstHolding(run)
    const last = k + HOLDING * (runs.records[run * RUN_STRIDE + COUNT] as number)
    for (; k < last; k += HOLDING) {
      const end = (list[k + 1] as number) + change
      list[k + 1] = end
      // A holder's last end is only remembered by its position, which is no longer right.
      const page = runs.records[run * RUN_STRIDE + LAST_PAGE] as number
      anchors.add(reader.positionNear(page, end - 1))
    }
  }
}
