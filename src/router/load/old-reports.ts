/**
 * Ignores load reports that keep a rank from getting requests for ever: the rank is full or overloaded by what it has
 * reported, has not reported since, and has no request of this router or of another one that tells its own.
 *
 * The last report of an engine that takes no more steps may name requests that are gone. Workers correct such reports,
 * but not those of older versions. This router would then never send a request there, and so never get another report.
 * As the report may also be true (the load of others, unchanged), a single request goes there as a probe; the rank gets
 * more when the probe has its first token or another report has come.
 */
import type { Clock } from '../../base/index.ts'
import type { RankTable } from '../ranks/rank-table.ts'

const OLD_MS = 5000
const SWEEP_EVERY_MS = 250

interface OldReportsOptions {
  readonly table: RankTable
  readonly clock: Clock
  /** Called after the report of a rank has been dropped. */
  readonly onIgnored: (slot: number) => void
}

export class OldReports {
  readonly #options: OldReportsOptions
  #sweptMs = -Infinity

  constructor(options: OldReportsOptions) {
    this.#options = options
  }

  /** Call before a decision and before queued requests are tried again. */
  sweep(): void {
    const { table, clock, onIgnored } = this.#options
    if (!table.hasExclusions) return
    const nowMs = clock.nowMs()
    if (nowMs - this.#sweptMs < SWEEP_EVERY_MS) return
    this.#sweptMs = nowMs
    for (const slot of table.live) {
      if (table.full[slot] === 0 && table.overloaded[slot] === 0) continue
      const { reportedMs, ignoredReport } = table.row(slot)
      if (reportedMs === null || ignoredReport !== null) continue
      if (table.activeRequests[slot] !== 0 || table.peerRequests[slot] !== 0) continue
      if (nowMs - reportedMs < OLD_MS) continue
      table.ignoreReport(slot)
      onIgnored(slot)
    }
  }
}
