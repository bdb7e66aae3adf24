/**
 * What a price in milliseconds needs of each rank, side by side: copies of columns of the table, the rates and the backlog.
 *
 * A decision reads all ranks. From a dozen columns that takes twice as long as from one row per rank, so whoever changes
 * one of the columns has the rank's row written again.
 */
import type { RankBacklog } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from './rank-table.ts'

/** Fields of a row. */
export const ROW = {
  /** How many times longer than in the pool prompts and steps take there. */
  prefillFactor: 0,
  stepFactor: 1,
  /** Requests that decode there, and what they read. */
  running: 2,
  contextTokens: 3,
  /** All requests there, as booked or as reported. */
  active: 4,
  // Of those without a first token; see `RankBacklog`.
  open: 5,
  waiting: 6,
  untilMs: 7,
  openMs: 8,
  beginsMs: 9,
  othersUntilMs: 10,
  sentWork: 11,
  sentMs: 12,
  /** Places in its batch; 0: it does not say. */
  places: 13,
  /** KV blocks that are not in use; below 0: too many are. Infinity: it does not say. */
  freeBlocks: 14,
} as const
export const ROW_SIZE = 16

export class PriceRows {
  cells = new Float64Array(ROW_SIZE)
  readonly #table: RankTable
  readonly #rates: RankRates
  readonly #backlog: RankBacklog
  #ages = 0

  constructor(table: RankTable, rates: RankRates, backlog: RankBacklog) {
    this.#table = table
    this.#rates = rates
    this.#backlog = backlog
  }

  /** Something of this rank has changed. */
  write(slot: number): void {
    const at = slot * ROW_SIZE
    if (at >= this.cells.length) this.#grow()
    const { cells } = this
    const [table, rates, backlog] = [this.#table, this.#rates, this.#backlog]
    cells[at + ROW.prefillFactor] = rates.prefillFactor[slot] as number
    cells[at + ROW.stepFactor] = rates.stepFactor[slot] as number
    cells[at + ROW.running] = backlog.runningOn(slot)
    cells[at + ROW.contextTokens] = backlog.contextTokens[slot] as number
    cells[at + ROW.active] = table.requestsOf(slot)
    cells[at + ROW.open] = backlog.open[slot] as number
    cells[at + ROW.waiting] = backlog.waiting[slot] as number
    cells[at + ROW.untilMs] = backlog.untilMs[slot] as number
    cells[at + ROW.openMs] = backlog.openMs[slot] as number
    cells[at + ROW.beginsMs] = backlog.beginsMs[slot] as number
    cells[at + ROW.othersUntilMs] = backlog.othersUntilMs[slot] as number
    cells[at + ROW.sentWork] = backlog.sentWork[slot] as number
    cells[at + ROW.sentMs] = backlog.sentMs[slot] as number
    cells[at + ROW.places] = table.maxSequences[slot] as number
    cells[at + ROW.freeBlocks] = table.freeBlocksOf(slot)
  }

  /** The factors of all ranks may have changed, too. */
  writeAll(): void {
    this.#ages = this.#rates.ages
    for (const slot of this.#table.live) this.write(slot)
  }

  /** Before a decision reads rows: what all ranks lose with time. */
  refresh(): void {
    if (this.#ages !== this.#rates.ages) this.writeAll()
  }

  #grow(): void {
    const cells = new Float64Array(ROW_SIZE * this.#table.capacity)
    cells.set(this.cells)
    this.cells = cells
  }
}
