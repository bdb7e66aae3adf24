/**
 * Publishes load reports to routers: one for every engine step that changed the load.
 *
 * Reports are not throttled: a report is sent in the same write as the tokens of its step, and of several steps in
 * one turn of the event loop only the newest is sent. A step without change costs one comparison.
 */
import type { LoadReport } from '../kv/index.ts'

export class LoadPublisher {
  readonly #emit: (report: LoadReport) => void
  readonly #sent = new Map<number, LoadReport>()

  constructor(emit: (report: LoadReport) => void) {
    this.#emit = emit
  }

  /** Returns whether the report shows that the engine has worked since the last one. */
  publish(report: LoadReport): boolean {
    const sent = this.#sent.get(report.dpRank)
    if (sent !== undefined && isSameLoad(report, sent)) return false
    this.#sent.set(report.dpRank, report)
    this.#emit(report)
    return sent === undefined || hasWorked(report, sent)
  }

  /** The newest report of every rank, for a router that has just connected. */
  current(): readonly LoadReport[] {
    return [...this.#sent.values()]
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

/** Blocks were filled or prompt tokens computed; requests that arrive or are given up change the rest. */
function hasWorked(now: LoadReport, before: LoadReport): boolean {
  if (now.activeBlocks > before.activeBlocks) return true
  return (
    now.prefillTokensInFlight < before.prefillTokensInFlight &&
    now.runningRequests === before.runningRequests &&
    now.queuedRequests === before.queuedRequests
  )
}
