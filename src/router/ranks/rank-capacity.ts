/**
 * Whether a rank takes another request now. A request that an engine cannot start soon is queued in the router
 * instead, where it keeps its priority, can still go to another worker, and can be refused with a retry time.
 *
 * Any one of these signs means that further requests would only be queued inside the worker:
 * - its batch is full and `engineQueue` requests wait for a place in it (`maxNumSeqs` of its card);
 * - it does not say how large its batch is, and as many requests have no first token as it answers in time
 *   (`open-limit.ts`);
 * - it reports that this many requests are queued (they lack KV blocks, or token budget in this step);
 * - more prompt tokens are in flight than two of its batches can compute;
 * - its last report is not believed, and one request is there to find out.
 *
 * Several routers see a free place at the same moment, and the router whose request has just ended sees it first. So
 * that it does not take every place, a router that has queued requests may exceed the bound by more, the smaller its
 * own share of the rank's requests is.
 */
interface RankDemand {
  /** Sent by this router and not ended. */
  readonly requests: number
  /** In the worker, from all routers. */
  readonly reportedRequests: number
  readonly reportedQueued: number
  /** Its report is ignored, and no request has been answered since; see `old-reports.ts`. */
  readonly takesProbeOnly: boolean
  /** Sent by this router after the last report. */
  readonly sentSinceReport: number
  /** Null if the worker does not report it. */
  readonly maxSequences: number | null
  /** Sent by this router and without a first token; and how many of them a rank of unknown batch size answers in time. */
  readonly openRequests: number
  readonly openMax: number
  /** Those of them whose prompt is computed there. */
  readonly openPrefills: number
  readonly prefillTokens: number
  readonly maxBatchedTokens: number | null
}

/** One batch is being computed, and the next one is ready when it ends. */
const BATCHES_AHEAD = 2

/**
 * Requests that may be queued inside a worker, and the largest excess for a router with queued requests and none of
 * its own there.
 */
export interface EngineQueueBound {
  readonly requests: number
  readonly advantage: number
  /** Number of routers that send to the worker; at least 2. */
  readonly routers: number
}

export function isRankFull(bound: EngineQueueBound, demand: RankDemand): boolean {
  const { reportedQueued, sentSinceReport, maxSequences, maxBatchedTokens } = demand
  if (demand.takesProbeOnly) return demand.requests > 0
  const requests = Math.max(demand.requests, demand.reportedRequests + sentSinceReport)
  const queue = bound.requests + bound.advantage * needOf(bound.routers * demand.requests, requests)
  if (maxSequences !== null && requests >= maxSequences + queue) return true
  if (maxSequences === null && demand.openRequests >= demand.openMax) return true
  if (reportedQueued > 0 && reportedQueued + sentSinceReport >= queue) return true
  return (
    maxBatchedTokens !== null &&
    demand.openPrefills > bound.requests &&
    demand.prefillTokens > BATCHES_AHEAD * maxBatchedTokens
  )
}

/** From 0 (the router has its share of the requests) to 1 (it has none); `fair`: if all had as many as it has. */
function needOf(fair: number, all: number): number {
  return all <= fair ? 0 : (all - fair) / all
}
