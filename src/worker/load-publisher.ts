/**
 * Load reports, thinned out: of a rank at most one per interval, the newest, and none that says nothing new.
 */
import type { Clock, Timer } from '../base/index.ts'
import type { LoadReport } from '../kv/index.ts'

interface RankLoad {
  sent: LoadReport
  waiting: LoadReport | null
  timer: Timer | null
  sentMs: number
}

export class LoadPublisher {
  readonly #clock: Clock
  readonly #intervalMs: number
  readonly #emit: (report: LoadReport) => void
  readonly #ranks = new Map<number, RankLoad>()

  constructor(clock: Clock, intervalMs: number, emit: (report: LoadReport) => void) {
    this.#clock = clock
    this.#intervalMs = intervalMs
    this.#emit = emit
  }

  publish(report: LoadReport): void {
    const nowMs = this.#clock.nowMs()
    const rank = this.#ranks.get(report.dpRank)
    if (rank === undefined) {
      this.#ranks.set(report.dpRank, { sent: report, waiting: null, timer: null, sentMs: nowMs })
      this.#emit(report)
      return
    }
    rank.waiting = report
    const waitMs = rank.sentMs + this.#intervalMs - nowMs
    if (waitMs <= 0) this.#send(rank)
    else rank.timer ??= this.#clock.after(waitMs, () => this.#send(rank))
  }

  /** The newest report of every rank, for a router that has just connected. */
  current(): readonly LoadReport[] {
    return [...this.#ranks.values()].map((rank) => rank.waiting ?? rank.sent)
  }

  close(): void {
    for (const rank of this.#ranks.values()) rank.timer?.cancel()
    this.#ranks.clear()
  }

  #send(rank: RankLoad): void {
    rank.timer?.cancel()
    rank.timer = null
    const report = rank.waiting
    rank.waiting = null
    if (report === null || isSameLoad(report, rank.sent)) return
    rank.sent = report
    rank.sentMs = this.#clock.nowMs()
    this.#emit(report)
  }
}

function isSameLoad(a: LoadReport, b: LoadReport): boolean {
  return (
    a.activeBlocks === b.activeBlocks &&
    a.totalBlocks === b.totalBlocks &&
    a.runningRequests === b.runningRequests &&
    a.queuedRequests === b.queuedRequests &&
    a.prefillTokensInFlight === b.prefillTokensInFlight
  )
}
