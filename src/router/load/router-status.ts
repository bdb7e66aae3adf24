/**
 * What the router knows of its own health: is KV routing fed, is disaggregation taken, and if not, why not.
 * Nothing degrades silently: what is on but not taken is named here with its reason and a count.
 */
import type { WorkerId } from '../../base/index.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import type { AnswerStatus } from './answer-check.ts'
import type { RouterMode } from '../configuration/router-config.ts'

export interface RankStatus {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly activePrefillTokens: number
  readonly activeDecodeBlocks: number
  readonly activeRequests: number
  readonly reportedBlocks: number | null
  /** Requests inside the worker, as it says; `reportedQueued` of them wait there. */
  readonly reportedRequests: number
  readonly reportedQueued: number
  /** Takes nothing more now. */
  readonly full: boolean
  readonly totalBlocks: number | null
  readonly overloaded: boolean
  readonly kvEventsSeen: number
  readonly promptsPlaced: number
}

export interface PoolStatus {
  readonly mode: RouterMode
  readonly blockSize: number
  /** False: no worker has said the size of its blocks, so that nothing is known of what they hold. */
  readonly knowsBlocks: boolean
  readonly workers: number
  readonly ranks: readonly RankStatus[]
  readonly queuedRequests: number
  readonly queuedPromptTokens: number
  readonly activeRequests: number
  readonly decisions: number
  readonly refusals: number
  /** False: cached blocks are estimated from what workers were sent, even if they send events. */
  readonly usesKvEvents: boolean
  /** Workers whose KV events have been seen, of those that promise any. */
  readonly kvEventWorkers: number
  readonly kvEventWorkersExpected: number
  /** Workers that promise events and had prompts enough to send some, but sent none. */
  readonly kvEventWorkersSilent: number
  /** How often a snapshot had to make good what was missed. */
  readonly kvEventGaps: number
  readonly kvEventErrors: number
  /** Snapshots that were asked for because events had been refused. */
  readonly kvSnapshotsAsked: number
  /** The index that is kept by KV events: what is in it, its memory, and what it has dropped for lack of memory. */
  readonly indexBlocks: number
  readonly indexBytes: number
  readonly indexBytesMax: number
  readonly indexGivenUp: number
  readonly answers: AnswerStatus
  /** Mean relative error of the first tokens that the learned rates predict; null: none has come. */
  readonly ttftError: number | null
  /** The error is so large that requests go where the fewest are, until it has fallen. */
  readonly predictionsOff: boolean
  /** Of a request of the usual length that came now, from what was learned; null: none has come. */
  readonly predictedTtftMs: number | null
  readonly busy: BusyThresholds
}

export type PrefillState = 'pending' | 'active' | 'unavailable' | 'disabled'

/** Workers of each leg that are in a domain without one of the other leg, where KV must stay in it; and how many there are. */
export interface Unpaired {
  readonly prefill: number
  readonly prefillAll: number
  readonly decode: number
  readonly decodeAll: number
}

export interface DisaggregationStatus {
  readonly state: PrefillState
  readonly enforced: boolean
  readonly requests: number
  readonly disaggregated: number
  /** Requests that were not disaggregated, by reason. */
  readonly aggregatedBy: Readonly<Record<string, number>>
  readonly prefillRetries: number
  /** Null: KV may travel everywhere, or one of the legs has no worker. */
  readonly unpaired: Unpaired | null
}

export interface RouterStatus {
  readonly prefill: PoolStatus
  readonly decode: PoolStatus
  readonly disaggregation: DisaggregationStatus
  readonly sessions: number
  /** One line each, for `/health` and the log; empty when all is as configured. */
  readonly warnings: readonly string[]
  /** The self-check in words: "KV events from 2 of 3 workers", "disaggregation taken in 40 % of requests …". */
  readonly selfCheck: readonly string[]
}
