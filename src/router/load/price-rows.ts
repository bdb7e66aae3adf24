/**
 * The inputs of a rank's cost in milliseconds as one row per rank: copies of columns of the rank table, the rates and
 * the backlog. Field `f` of slot `s` is `cells[s * ROW_SIZE + ROW.f]`.
 *
 * A decision reads all ranks, and reading a dozen separate columns takes twice as long as reading one row per rank.
 * Whoever changes one of the columns must write the rank's row again.
 */
import type { RankBacklog } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from '../ranks/rank-table.ts'

/** Fields of a row. */
export const ROW = {
  /** Prefill and step times of the rank relative to its pool. */
  prefillFactor: 0,
  stepFactor: 1,
  /** Requests in decode, and their context tokens. */
  running: 2,
  contextTokens: 3,
  /** All requests of the rank, the larger of booked and reported. */
  active: 4,
  // About prompts without a first token; see `RankBacklog`.
  open: 5,
  waiting: 6,
  untilMs: 7,
  openMs: 8,
  beganMs: 9,
  othersUntilMs: 10,
  sentWork: 11,
  sentMs: 12,
  /** Maximum batch size; 0 if not reported. */
  places: 13,
  /** Free KV blocks, negative if overcommitted; Infinity if the rank does not report its total. */
  freeBlocks: 14,
  stepEndMs: 15,
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

  /** Writes the row of one rank; call after one of its columns changed. */
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
    cells[at + ROW.beganMs] = backlog.beganMs(slot)
    cells[at + ROW.othersUntilMs] = backlog.othersUntilMs[slot] as number
    cells[at + ROW.sentWork] = backlog.sentWork[slot] as number
    cells[at + ROW.sentMs] = backlog.sentMs[slot] as number
    cells[at + ROW.stepEndMs] = backlog.stepEndMs[slot] as number
    cells[at + ROW.places] = table.maxSequences[slot] as number
    cells[at + ROW.freeBlocks] = table.freeBlocksOf(slot)
  }

  writeAll(): void {
    for (const slot of this.#table.live) this.write(slot)
  }

  /** Call before a decision: rewrites all rows if the factors have been updated. */
  refresh(): void {
    if (this.#ages === this.#rates.ages) return
    this.#ages = this.#rates.ages
    this.writeAll()
  }

  #grow(): void {
    const cells = new Float64Array(ROW_SIZE * this.#table.capacity)
    cells.set(this.cells)
    this.cells = cells
  }
}
