/**
 * Load reports on their way to the routers: one for every engine step that changed something, none that says nothing
 * new.
 *
 * They are not thinned out by time: a report leaves in the same write as the tokens of its step, and of several steps
 * in one turn of the event loop only the newest is sent. A step that changes nothing costs a comparison.
 */
import type { LoadReport } from '../kv/index.ts'

export class LoadPublisher {
  readonly #emit: (report: LoadReport) => void
  readonly #sent = new Map<number, LoadReport>()

  constructor(emit: (report: LoadReport) => void) {
    this.#emit = emit
  }

  publish(report: LoadReport): void {
    const sent = this.#sent.get(report.dpRank)
    if (sent !== undefined && isSameLoad(report, sent)) return
    // A copy: an engine may fill the same object again.
    const copy = { ...report }
    this.#sent.set(report.dpRank, copy)
    this.#emit(copy)
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
