/**
 * What a decision reads of each rank, as columns (structure of arrays), indexed by slot. Columns are updated when
 * something happens.
 */

const MIN_CAPACITY = 16

export class RankColumns {
  activePrefillTokens = new Float64Array(MIN_CAPACITY)
  activeDecodeBlocks = new Float64Array(MIN_CAPACITY)
  activeRequests = new Int32Array(MIN_CAPACITY)
  overloaded = new Uint8Array(MIN_CAPACITY)
  fencedUntilMs = new Float64Array(MIN_CAPACITY)
  maxBatchedTokens = new Float64Array(MIN_CAPACITY)
  totalBlocks = new Float64Array(MIN_CAPACITY)
  /** Maximum batch size (`max_num_seqs`); 0 if not reported. */
  maxSequences = new Int32Array(MIN_CAPACITY)
  /** The worker's own report over all frontends: requests running or queued in it, prefill tokens, KV blocks. */
  reportedRequests = new Int32Array(MIN_CAPACITY)
  reportedPrefillTokens = new Float64Array(MIN_CAPACITY)
  reportedDecodeBlocks = new Float64Array(MIN_CAPACITY)
  /** Requests announced by other routers: their number, and the uncached tokens of prompts that are not computed yet. */
  peerRequests = new Int32Array(MIN_CAPACITY)
  peerPromptTokens = new Float64Array(MIN_CAPACITY)
  /** 1 if the rank takes no more requests for now: they are queued in the router. See `rank-capacity.ts`. */
  full = new Uint8Array(MIN_CAPACITY)
  /** Requests sent after the last report, and requests without a first token. */
  sentSinceReport = new Int32Array(MIN_CAPACITY)
  openPrefills = new Int32Array(MIN_CAPACITY)
  /** Requests without a first token, also those whose prompt was computed elsewhere; how many of them wait, and their learned limit. */
  openRequests = new Int32Array(MIN_CAPACITY)
  openWaiting = new Float64Array(MIN_CAPACITY)
  openMax = new Float64Array(MIN_CAPACITY)

  get capacity(): number {
    return this.activeRequests.length
  }

  /** As for a rank without load; what its card says is written when it joins. */
  protected clear(slot: number): void {
    this.activePrefillTokens[slot] = 0
    this.activeDecodeBlocks[slot] = 0
    this.activeRequests[slot] = 0
    this.overloaded[slot] = 0
    this.fencedUntilMs[slot] = 0
    this.reportedRequests[slot] = 0
    this.reportedPrefillTokens[slot] = 0
    this.reportedDecodeBlocks[slot] = 0
    this.full[slot] = 0
    this.sentSinceReport[slot] = 0
    this.openPrefills[slot] = 0
    this.openRequests[slot] = 0
    this.openWaiting[slot] = 0
    this.openMax[slot] = Infinity
    this.peerRequests[slot] = 0
    this.peerPromptTokens[slot] = 0
  }

  protected grow(): void {
    this.activePrefillTokens = grown(this.activePrefillTokens)
    this.activeDecodeBlocks = grown(this.activeDecodeBlocks)
    this.activeRequests = grown(this.activeRequests)
    this.overloaded = grown(this.overloaded)
    this.fencedUntilMs = grown(this.fencedUntilMs)
    this.maxBatchedTokens = grown(this.maxBatchedTokens)
    this.totalBlocks = grown(this.totalBlocks)
    this.maxSequences = grown(this.maxSequences)
    this.reportedRequests = grown(this.reportedRequests)
    this.reportedPrefillTokens = grown(this.reportedPrefillTokens)
    this.reportedDecodeBlocks = grown(this.reportedDecodeBlocks)
    this.full = grown(this.full)
    this.sentSinceReport = grown(this.sentSinceReport)
    this.openPrefills = grown(this.openPrefills)
    this.openRequests = grown(this.openRequests)
    this.openWaiting = grown(this.openWaiting)
    this.openMax = grown(this.openMax)
    this.peerRequests = grown(this.peerRequests)
    this.peerPromptTokens = grown(this.peerPromptTokens)
  }
}

/** Twice as long. */
function grown<Column extends Float64Array | Int32Array | Uint8Array>(column: Column): Column {
  const larger = new (column.constructor as new (length: number) => Column)(2 * column.length)
  larger.set(column)
  return larger
}
