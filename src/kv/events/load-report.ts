/** A worker's report of its own load, at most once per engine step. The router compares it with its own bookings. */
export interface LoadReport {
  readonly dpRank: number
  readonly activeBlocks: number
  readonly totalBlocks: number
  readonly runningRequests: number
  readonly queuedRequests: number
  readonly prefillTokensInFlight: number
}
