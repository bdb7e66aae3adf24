/**
 * Asks a server for its load, as part of each check. When the question fails it is asked less often, because an answer
 * that is too long or too late costs more than it tells; what was reported before is taken back.
 */
import { BatonError } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { Dialect } from '../dialects/dialect.ts'

interface LoadWatchOptions {
  readonly client: UpstreamClient
  readonly dialect: Pick<Dialect, 'load'>
  readonly onLoad: (report: LoadReport) => void
  readonly onNote?: (note: string) => void
}

/** Checks without the question after it has failed. */
const PAUSE_CHECKS = 10

export class LoadWatch {
  readonly #options: LoadWatchOptions
  #reports: readonly LoadReport[] = []
  /** Ranks that have reported a load. */
  #ranks = new Set<number>()
  #error: BatonError | null = null
  #isFailureTold = false
  #pause = 0

  constructor(options: LoadWatchOptions) {
    this.#options = options
  }

  /** The last loads that the server reported. */
  get reports(): readonly LoadReport[] {
    return this.#reports
  }

  /** False: the server does not report it, or not now. Never rejects. */
  async ask(deadlineMs: number): Promise<boolean> {
    if (this.#pause > 0) {
      this.#pause -= 1
      return false
    }
    const { client, dialect } = this.#options
    try {
      const reports = (await dialect.load?.(client, deadlineMs)) ?? null
      this.#error = null
      this.#reports = reports ?? []
      return reports !== null
    } catch (thrown) {
      this.#reports = []
      const error = BatonError.from(thrown)
      // Otherwise the question was never sent: nothing is known about the route.
      if (error.code !== 'capacity.worker_overloaded') {
        this.#error = error
        this.#pause = PAUSE_CHECKS
      }
      return false
    }
  }

  /** The server is there: reports what it has answered. */
  tell(): void {
    const { onLoad } = this.#options
    this.#tellChange()
    for (const dpRank of this.#ranks) {
      if (!this.#reports.some((report) => report.dpRank === dpRank)) onLoad(unknownLoad(dpRank))
    }
    this.#ranks = new Set(this.#reports.map(({ dpRank }) => dpRank))
    for (const report of this.#reports) onLoad(report)
  }

  #tellChange(): void {
    const { onNote } = this.#options
    const isFailure = this.#error !== null
    if (isFailure === this.#isFailureTold) return
    this.#isFailureTold = isFailure
    onNote?.(
      this.#error === null
        ? 'reports its load again'
        : `reports no load (${this.#error.message}): routing counts only its own requests`,
    )
  }
}

/** The requests of others at the server are not known. */
function unknownLoad(dpRank: number): LoadReport {
  return {
    dpRank,
    activeBlocks: 0,
    totalBlocks: 0,
    runningRequests: 0,
    queuedRequests: 0,
    prefillTokensInFlight: 0,
  }
}
