/**
 * How busy a worker says it is, once per engine step (coalesced): the reference that the router's own accounting is
 * compared with.
 */
export interface LoadReport {
  readonly dpRank: number
  readonly activeBlocks: number
  readonly totalBlocks: number
  readonly runningRequests: number
  readonly queuedRequests: number
  readonly prefillTokensInFlight: number
}
