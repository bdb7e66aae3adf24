/**
 * What is known of one rank of one worker when a request asks for a place: the view of every cost term and every filter.
 *
 * The router has one such object per pool and moves it from rank to rank: read it while your function runs, do not keep it.
 */
import type { Phase, WorkerCard } from '../../request/index.ts'

export interface Candidate {
  readonly card: WorkerCard
  readonly dpRank: number
  /** The card's taints and the places of its topology (`dynamo.topology/<domain>=<value>`). */
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
  /** Of a cache that all workers share, behind what the device holds. */
  readonly sharedBlocks: number
  /** Prompt tokens that need not be computed, every tier by its weight. */
  readonly cachedTokens: number
  /** 1, or less where more prefill waits than on the idlest candidate (`overlapScoreCreditDecay`). */
  readonly decay: number

  // Load
  /** False: prefill tokens in flight do not count for this request (a decode leg). */
  readonly tracksPrefill: boolean
  readonly activePrefillTokens: number
  /** Distinct KV blocks in use. */
  readonly activeDecodeBlocks: number
  /** Blocks that this request would add to them. */
  readonly additionalBlocks: number
  readonly activeRequests: number
  /** Requests that wait inside the worker, as it reports; 0 when it does not say. */
  readonly queuedRequests: number

  // Capacity
  /** KV blocks of the rank; null when it does not say. */
  readonly totalBlocks: number | null
  readonly maxBatchedTokens: number

  /** The request's session is bound to this rank. */
  readonly holdsSession: boolean
  /** Product of the request's preferred taints that the rank has: below 1 is preferred. */
  readonly taintFactor: number
  // Speed, learned from what the rank does; the pool's where nothing is known of it yet
  readonly msPerPromptToken: number
  /** Before the first prompt token is computed. */
  readonly prefillMs: number
  /** Until the prompts before this one are computed. */
  readonly waitMs: number
  /** Until its batch has a place. */
  readonly placeMs: number
  /** Requests that wait there for the step in which this one would be computed, too. */
  readonly waitingRequests: number
  /** Requests whose prompts are computed there now, or in the very next step. */
  readonly firstRequests: number
  /** How likely those have not begun yet, so that a prompt sent now is computed in one step with them. */
  readonly joinShare: number
  /** Of the rank's time, what prompts have taken of late. */
  readonly promptShare: number
  /** Requests that decode there. */
  readonly runningRequests: number
  /** Prompt tokens of all requests there: what a step reads. */
  readonly contextTokens: number
  /** Of a step, and what each request in it and each token of their contexts add. */
  readonly stepMs: number
  readonly stepMsPerRequest: number
  readonly stepMsPerContextToken: number
  /** Of steps of those that decode there, how many a first token takes. */
  readonly stepShare: number
  /** Of the prompt tokens of the pool, those that were found cached. */
  readonly reuseShare: number
  /** As the request says, else as others of the pool had. */
  readonly expectedOutputTokens: number
  /** Of the requests that run there. */
  readonly usualOutputTokens: number
  /** For how many turns behind this one it counts where it goes. */
  readonly laterTurns: number
  /** What their prompts have more than the one before. */
  readonly laterTokens: number
  /** Of sessions whose next turn is expected there, those that have a request under way at a time. */
  readonly boundRequests: number
  /** Until its first token, and from one token to the next, if it went there; 0: nothing is known of it yet. */
  readonly predictedTtftMs: number
  readonly predictedItlMs: number
  /** Until the KV of its prompt has come there from the prefill worker, or from there to the nearest decode worker; 0: it comes from nowhere, or none was measured yet. */
  readonly transferMs: number
  /** By how much it would miss its latency goals there, in all; 0: it has none, or meets them. */
  readonly goalLateMs: number
}
