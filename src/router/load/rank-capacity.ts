/**
 * Whether a rank takes another request now. What an engine cannot begin soon waits in the router instead: there it keeps
 * its priority, can still go elsewhere, and can be refused with a time to come back.
 *
 * Three signs that more would only wait inside the worker, whichever shows first:
 * - its batch is full, and `engineQueue` requests wait for a place in it (`maxNumSeqs` of its card);
 * - it says that so many wait (they lack KV blocks, or this step's token budget);
 * - more prompt tokens are on their way than two of its batches compute.
 *
 * Several routers see a place at the same moment, and the one whose request has just ended sees it first. So that it does
 * not take every place: the less of a rank's requests are its own, the more a router that has waited may have there.
 */
interface RankDemand {
  /** Sent by this router and not ended. */
  readonly requests: number
  /** Inside the worker, whoever sent them. */
  readonly reportedRequests: number
  readonly reportedQueued: number
  /** By this router after the newest report. */
  readonly sentSinceReport: number
  /** Null: the worker does not say. */
  readonly maxSequences: number | null
  /** Sent by this router and without a token yet. */
  readonly openPrefills: number
  readonly prefillTokens: number
  readonly maxBatchedTokens: number | null
}

/** One batch computes, the next one is there when it has ended. */
const BATCHES_AHEAD = 2

/** Requests that may wait in a worker, and how many more for a router that has waited and has none of its own there. */
export interface EngineQueueBound {
  readonly requests: number
  readonly advantage: number
}

export function isRankFull(bound: EngineQueueBound, demand: RankDemand): boolean {
  const { reportedQueued, sentSinceReport, maxSequences, maxBatchedTokens } = demand
  const requests = Math.max(demand.requests, demand.reportedRequests + sentSinceReport)
  const queue = bound.requests + bound.advantage * needOf(demand.requests, requests)
  if (maxSequences !== null && requests >= maxSequences + queue) return true
  if (reportedQueued > 0 && reportedQueued + sentSinceReport >= queue) return true
  return (
    maxBatchedTokens !== null &&
    demand.openPrefills > bound.requests &&
    demand.prefillTokens > BATCHES_AHEAD * maxBatchedTokens
  )
}

/** From 0, when at least half of the requests are its own, to 1, when none is. */
function needOf(own: number, all: number): number {
  return all <= 2 * own ? 0 : (all - 2 * own) / all
}
