/**
 * The router's own health: whether KV routing receives events, whether disaggregation is used, and if not, why. A
 * feature that is enabled but not in effect is listed with its reason and a count.
 */
import type { WorkerId } from '../../base/index.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { AnswerStatus } from './answer-check.ts'
import type { RouterMode } from '../configuration/router-config.ts'

/** A report by which a rank takes no requests, although this router has none there and no other report has come. */
export interface IgnoredReport {
  /** Requests inside the worker; `queued` of them are queued there. */
  readonly requests: number
  readonly queued: number
  readonly blocks: number
}

export interface RankStatus {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly activePrefillTokens: number
  readonly activeDecodeBlocks: number
  readonly activeRequests: number
  /** Requests on the rank that other frontends have announced. */
  readonly peerRequests: number
  readonly reportedBlocks: number | null
  /** Requests inside the worker, as it reports; `reportedQueued` of them are queued there. */
  readonly reportedRequests: number
  readonly reportedQueued: number
  /** The last report, if it is not believed any more; null: it is, or there is none. */
  readonly ignoredReport: IgnoredReport | null
  /** Takes no more requests for now. */
  readonly full: boolean
  readonly totalBlocks: number | null
  readonly overloaded: boolean
  readonly kvEventsSeen: number
  readonly promptsPlaced: number
}

export interface PoolStatus {
  readonly mode: RouterMode
  readonly blockSize: number
  /** False if no worker has reported its block size, so that nothing is known about cached blocks. */
  readonly knowsBlocks: boolean
  readonly workers: number
  readonly ranks: readonly RankStatus[]
  readonly queuedRequests: number
  readonly queuedPromptTokens: number
  readonly activeRequests: number
  /** Prefills that have not ended and that a decode leg follows, on any worker, also one that has left. */
  readonly prefillsUnderWay: number
  readonly decisions: number
  readonly refusals: number
  /** False: cached blocks are estimated from what workers were sent, even if they send events. */
  readonly usesKvEvents: boolean
  /** Workers whose KV events have been received, of those whose card announces events. */
  readonly kvEventWorkers: number
  readonly kvEventWorkersExpected: number
  /** Workers that announce events and had enough prompts to send some, but sent none. */
  readonly kvEventWorkersSilent: number
  /** Number of snapshots that replaced missed events. */
  readonly kvEventGaps: number
  readonly kvEventErrors: number
  /** Snapshots that were requested because events had been rejected. */
  readonly kvSnapshotsAsked: number
  /** The index built from KV events: blocks, memory in use, memory limit, blocks evicted for lack of memory. */
  readonly indexBlocks: number
  readonly indexBytes: number
  readonly indexBytesMax: number
  readonly indexGivenUp: number
  readonly answers: AnswerStatus
  /** Mean relative error of predicted first-token times; null before the first measurement. */
  readonly ttftError: number | null
  /** True while the error is so large that costs are in blocks. */
  readonly predictionsOff: boolean
  /** Predicted first-token time of a request of usual length arriving now; null before the first measurement. */
  readonly predictedTtftMs: number | null
  readonly busy: BusyThresholds
}

export type PrefillState = 'pending' | 'active' | 'unavailable' | 'disabled'

/**
 * If KV must stay in a domain: workers of each leg without a partner of the other leg in their domain, and all
 * workers.
 */
export interface Unpaired {
  readonly prefill: number
  readonly prefillAll: number
  readonly decode: number
  readonly decodeAll: number
}

/** Whether no prefill worker has a decode worker in its domain. */
export const hasNoPair = (unpaired: Unpaired | null): boolean =>
  unpaired !== null && unpaired.prefill === unpaired.prefillAll

export interface DisaggregationStatus {
  readonly state: PrefillState
  readonly enforced: boolean
  readonly requests: number
  readonly disaggregated: number
  /** Requests that were not disaggregated, by reason. */
  readonly aggregatedBy: Readonly<Record<string, number>>
  readonly prefillRetries: number
  /** Null if KV may be transferred everywhere, or one of the legs has no worker. */
  readonly unpaired: Unpaired | null
}

export interface RouterStatus {
  readonly prefill: PoolStatus
  readonly decode: PoolStatus
  readonly disaggregation: DisaggregationStatus
  readonly sessions: number
  /** One line each, for `/health` and the log; empty if everything is in effect as configured. */
  readonly warnings: readonly string[]
  /** The self-check in words: "KV events from 2 of 3 workers", "disaggregation taken in 40 % of requests …". */
  readonly selfCheck: readonly string[]
}
