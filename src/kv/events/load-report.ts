/**
 * A worker's report of its own load, at most once per engine step. The router compares it with its own bookings. The
 * last report counts until the next one, so an engine should also report when its last request has ended.
 */
export interface LoadReport {
  readonly dpRank: number
  /** KV blocks in use by requests; blocks that are only cached do not count. */
  readonly activeBlocks: number
  readonly totalBlocks: number
  /** Requests in the batch, and requests that wait inside the engine for a place in it. */
  readonly runningRequests: number
  readonly queuedRequests: number
  /** Prompt tokens of these requests that are still to be computed. */
  readonly prefillTokensInFlight: number
}
