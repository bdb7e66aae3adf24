/**
 * What the router knows of its own health: is KV routing fed, is disaggregation taken, and if not, why not.
 * Nothing degrades silently: what is on but not taken is named here with its reason and a count.
 */
import type { WorkerId } from '../base/index.ts'
import type { BusyThresholds } from './busy-threshold.ts'
import type { RouterMode } from './router-config.ts'

export interface RankStatus {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly activePrefillTokens: number
  readonly activeDecodeBlocks: number
  readonly activeRequests: number
  readonly reportedBlocks: number | null
  readonly totalBlocks: number | null
  readonly overloaded: boolean
  readonly kvEventsSeen: number
  readonly promptsPlaced: number
}

export interface PoolStatus {
  readonly mode: RouterMode
  readonly blockSize: number
  readonly workers: number
  readonly ranks: readonly RankStatus[]
  readonly queuedRequests: number
  readonly queuedPromptTokens: number
  readonly activeRequests: number
  readonly decisions: number
  readonly refusals: number
  /** False: what workers hold is believed from what they were sent, whatever they say. */
  readonly usesKvEvents: boolean
  /** Workers whose KV events have been seen, of those that promise any. */
  readonly kvEventWorkers: number
  readonly kvEventWorkersExpected: number
  /** Workers that promise events and had prompts enough to send some, but sent none. */
  readonly kvEventWorkersSilent: number
  /** How often a snapshot had to make good what was missed. */
  readonly kvEventGaps: number
  readonly kvEventErrors: number
  readonly busy: BusyThresholds
}

export type PrefillState = 'pending' | 'active' | 'unavailable' | 'disabled'

export interface DisaggregationStatus {
  readonly state: PrefillState
  readonly enforced: boolean
  readonly requests: number
  readonly disaggregated: number
  /** Requests that were not disaggregated, by reason. */
  readonly aggregatedBy: Readonly<Record<string, number>>
  readonly prefillRetries: number
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
