/**
 * What is known about one rank of one worker when a request is placed: the input of every cost term and filter.
 *
 * The router has one such object per pool and moves it from rank to rank: read its fields while your function runs,
 * and do not keep a reference.
 */
import type { Phase, WorkerCard } from '../../request/index.ts'

export interface Candidate {
  readonly card: WorkerCard
  readonly dpRank: number
  /** The taints of the worker's card, and its topology as taints (`dynamo.topology/<domain>=<value>`). */
  readonly taints: ReadonlySet<string>

  // The request
  readonly phase: Phase
  readonly promptTokens: number
  readonly promptBlocks: number
  /** Tokens per KV block. */
  readonly blockSize: number
  /** How long the request has waited in the router's queue. */
  readonly queuedMs: number

  // Cached blocks of the prompt, by tier; a block counts in the nearest tier only.
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly diskBlocks: number
  /** Blocks that are in a cache shared by all workers and not on this device. */
  readonly sharedBlocks: number
  /** Prompt tokens that need not be computed: the cached tokens of each tier times the tier's weight. */
  readonly cachedTokens: number
  /**
   * Factor of the device credit: 1, or less if the rank has more prefill in flight than the idlest candidate
   * (`overlapScoreCreditDecay`).
   */
  readonly decay: number

  // Load
  /** False for a decode leg: prefill tokens in flight do not count. */
  readonly tracksPrefill: boolean
  readonly activePrefillTokens: number
  /** Distinct KV blocks in use by active requests. */
  readonly activeDecodeBlocks: number
  /** KV blocks in use that this request would add. */
  readonly additionalBlocks: number
  readonly activeRequests: number
  /** Requests queued inside the worker, as it reports; 0 if it does not report them. */
  readonly queuedRequests: number

  // Capacity
  /** KV blocks of the rank in total; null if not reported. */
  readonly totalBlocks: number | null
  readonly maxBatchedTokens: number

  /** True if the request's session is bound to this rank. */
  readonly holdsSession: boolean
  /** Product of the request's preferred-taint factors that match the rank; below 1 means preferred. */
  readonly taintFactor: number
  // Speed, learned from measurements of the rank; the pool's average until the rank has been measured
  readonly msPerPromptToken: number
  /** Fixed cost of a prefill, independent of its length. */
  readonly prefillMs: number
  /** Time until the prompts queued before this one are computed. */
  readonly waitMs: number
  /** Time until the rank's batch has a free place. */
  readonly placeMs: number
  /** Requests that wait for the same engine step in which this prompt would be computed. */
  readonly waitingRequests: number
  /** Requests whose prompts are being computed, or will be in the very next step. */
  readonly firstRequests: number
  /** Probability that this prefill has not begun yet, so that a prompt sent now is computed in the same step. */
  readonly joinShare: number
  /** Share of the rank's recent time that was spent on prefill. */
  readonly promptShare: number
  /** Requests in decode on the rank. */
  readonly runningRequests: number
  /** Context tokens of all requests on the rank, which a decode step has to read. */
  readonly contextTokens: number
  /** Duration of a decode step: fixed part, plus a part per request in it and per context token. */
  readonly stepMs: number
  readonly stepMsPerRequest: number
  readonly stepMsPerContextToken: number
  /** Expected time until the decode step in progress ends. */
  readonly restMs: number
  /** Mean number of prompts per rank of the pool that wait behind others. */
  readonly promptsBehind: number
  /** How many of the current decode steps pass before a first token, learned. */
  readonly stepShare: number
  /** Share of the pool's prompt tokens that were found in the cache. */
  readonly reuseShare: number
  /** Expected output length: as the request says, else the pool's average. */
  readonly expectedOutputTokens: number
  /** Average output length of the requests that run on the rank. */
  readonly usualOutputTokens: number
  /** Expected number of later turns of the same session that will follow to this rank. */
  readonly laterTurns: number
  /** Tokens by which the prompt of each later turn is expected to grow. */
  readonly laterTokens: number
  /** Expected number of other sessions bound to the rank that have a request running at any one time. */
  readonly boundRequests: number
  /** Predicted time to the first token and time between tokens if the request runs here; 0 if nothing is known yet. */
  readonly predictedTtftMs: number
  readonly predictedItlMs: number
  /**
   * Predicted KV transfer time: from the prefill worker to here, or (for a prefill worker) from here to the best
   * decode worker. 0 if there is no transfer or none has been measured.
   */
  readonly transferMs: number
  /** How much longer than `prefillMs` and its tokens say the prompt may take, because the rank has not shown its speed. */
  readonly riskMs: number
  /** Total time by which the request's latency goals would be missed here; 0 if it has none or meets them. */
  readonly goalLateMs: number
}
