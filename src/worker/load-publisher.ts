/**
 * Publishes load reports to routers: one for every engine step that changed the load.
 *
 * Reports are not throttled: a report is sent in the same write as the tokens of its step, and of several steps in
 * one turn of the event loop only the newest is sent. A step without change costs one comparison; a load that stays the
 * same is reported again from time to time.
 *
 * Routers believe the last report until the next one. An engine that reports in its steps takes no more of them when
 * its requests have been cancelled, so its last report may name requests that are gone, and routers would send none for
 * ever. Only the worker knows how many requests all frontends have sent: when the engine has been silent for a while,
 * requests beyond those are taken out of its report. KV blocks stay as reported; they may be kept without requests.
 */
import type { Clock, Timer } from '../base/index.ts'
import type { LoadReport } from '../kv/index.ts'

/** More than the usual step of an engine, and than the interval at which the load of a server is asked for. */
const SILENT_MS = 2000
/** An unchanged load is reported again after this time, as long as the engine repeats it: routers ignore old reports. */
const RENEW_MS = 2000

interface LoadPublisherOptions {
  readonly clock: Clock
  readonly emit: (report: LoadReport) => void
  /** No more requests than this can be on the rank; Infinity: the engine has other clients. */
  readonly mostOn: (dpRank: number) => number
}

interface RankReport {
  /** What routers were told, which may be corrected; and what the engine has last reported, and when. */
  sent: LoadReport
  sentMs: number
  reported: LoadReport
  reportedMs: number
}

export class LoadPublisher {
  readonly #options: LoadPublisherOptions
  readonly #ranks = new Map<number, RankReport>()
  #check: Timer | null = null
  #isClosed = false

  constructor(options: LoadPublisherOptions) {
    this.#options = options
  }

  /** Returns whether the report shows that the engine has worked since the last one. */
  publish(report: LoadReport): boolean {
    const reportedMs = this.#options.clock.nowMs()
    const rank = this.#ranks.get(report.dpRank)
    if (rank === undefined) {
      this.#ranks.set(report.dpRank, {
        sent: report,
        sentMs: reportedMs,
        reported: report,
        reportedMs,
      })
      this.#send(report)
      return true
    }
    const { sent, reported } = rank
    rank.reported = report
    rank.reportedMs = reportedMs
    if (isSameLoad(report, sent) && !isDue(report, reportedMs - rank.sentMs)) return false
    rank.sent = report
    rank.sentMs = reportedMs
    this.#send(report)
    return hasWorked(report, reported)
  }

  /** A request has left the engine. */
  requestLeft(): void {
    if (this.#check !== null) return
    for (const { sent } of this.#ranks.values()) this.#checkIfTooMuch(sent)
  }

  /** The newest report of every rank, for a router that has just connected. */
  current(): readonly LoadReport[] {
    return [...this.#ranks.values()].map(({ sent }) => sent)
  }

  close(): void {
    this.#isClosed = true
    this.#check?.cancel()
    this.#check = null
  }

  #send(report: LoadReport): void {
    this.#options.emit(report)
    this.#checkIfTooMuch(report)
  }

  #isTooMuch({ dpRank, runningRequests, queuedRequests }: LoadReport): boolean {
    return runningRequests + queuedRequests > this.#options.mostOn(dpRank)
  }

  #checkIfTooMuch(report: LoadReport): void {
    if (this.#isTooMuch(report)) this.#checkAfter(SILENT_MS)
  }

  #checkAfter(delayMs: number): void {
    if (this.#check !== null || this.#isClosed) return
    this.#check = this.#options.clock.after(delayMs, () => this.#correct())
  }

  /** Corrects what silent ranks have reported. One that still reports may be about to drop these requests. */
  #correct(): void {
    this.#check = null
    const { clock, emit, mostOn } = this.#options
    const nowMs = clock.nowMs()
    const silentSinceMs = nowMs - SILENT_MS
    let againMs = Infinity
    for (const rank of this.#ranks.values()) {
      if (!this.#isTooMuch(rank.sent)) continue
      if (rank.reportedMs > silentSinceMs) {
        againMs = Math.min(againMs, rank.reportedMs - silentSinceMs)
        continue
      }
      rank.sent = withAtMost(rank.sent, mostOn(rank.sent.dpRank))
      rank.sentMs = nowMs
      emit(rank.sent)
    }
    if (againMs !== Infinity) this.#checkAfter(againMs)
  }
}

/** An idle rank keeps no request away. */
function isDue({ runningRequests, queuedRequests }: LoadReport, sentAgoMs: number): boolean {
  return sentAgoMs >= RENEW_MS && runningRequests + queuedRequests > 0
}

function withAtMost(report: LoadReport, requests: number): LoadReport {
  const runningRequests = Math.min(report.runningRequests, requests)
  const queuedRequests = Math.min(report.queuedRequests, requests - runningRequests)
  const prefillTokensInFlight = requests === 0 ? 0 : report.prefillTokensInFlight
  return { ...report, runningRequests, queuedRequests, prefillTokensInFlight }
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

/** Blocks were filled or prompt tokens computed; requests that arrive or are given up change the rest. */
function hasWorked(now: LoadReport, before: LoadReport): boolean {
  if (now.activeBlocks > before.activeBlocks) return true
  return (
    now.prefillTokensInFlight < before.prefillTokensInFlight &&
    now.runningRequests === before.runningRequests &&
    now.queuedRequests === before.queuedRequests
  )
}
