/**
 * A cost term as data: name, weight, unit, and a function that reads its value from a candidate.
 *
 * Built-in terms and user-defined terms (`scorers`, `--scorer`) have the same shape. Configuration, pricing, records,
 * `explain`, the decision header and the docs are all derived from it.
 */
import type { GenerateRequest } from '../../request/index.ts'
import type { Candidate } from './candidate.ts'

/**
 * How a value enters the cost.
 * - `add`: weight × value is added.
 * - `credit`: weight × value is subtracted from the prefill term, which never falls below 0 (for a decode leg without
 *   prefill: from the decode term).
 * - `factor`: the sum of the preceding terms is multiplied by the value.
 */
export type TermRole = 'add' | 'credit' | 'factor'

export interface CostTerm {
  /** Unique within a router: names the term's column in `explain` and its value in a record. */
  readonly name: string
  /**
   * Unit of the value, for display only: `blocks`, `requests`, `kW` … The cost itself is in KV blocks, or in
   * milliseconds with `cost: time`.
   */
  readonly unit?: string
  readonly role?: TermRole
  /** Ignored for a `factor`. */
  readonly weight?: number
  /** Called for every candidate of every decision: must be synchronous and free of side effects. Lower costs win. */
  of(candidate: Candidate, request: GenerateRequest): number
}

/** A configurable weight; `option` is the name of the router option. */
export interface WeightOption {
  readonly option: string
  readonly default: number
  readonly help: string
}

export interface BuiltInTerm {
  readonly name: string
  readonly unit: string
  readonly role: TermRole
  readonly weight: WeightOption | number
  readonly help: string
  /** Whether the credits are subtracted from this term in a decision of this kind. */
  readonly isLowered?: (decision: DecisionKind) => boolean
  /** If false, the value is neutral for every candidate of such a decision and is not computed. */
  readonly applies?: (decision: DecisionKind) => boolean
  readonly of: (candidate: Candidate, request: GenerateRequest) => number
}

/** Properties that are the same for all candidates of a decision and determine which terms apply. */
export interface DecisionKind {
  readonly isDecode: boolean
  readonly trackPrefill: boolean
  readonly overlapScoreCredit: number
  readonly hasPreferredTaints: boolean
  /** Some rank has blocks of the prompt in host memory or on disk. */
  readonly hasLowerTiers: boolean
  /** A shared cache has blocks of the prompt. */
  readonly hasShared: boolean
  /** The request has latency goals and predictions are reliable enough to use them. */
  readonly hasGoals: boolean
  /** Later turns of the session are expected to follow to the same rank. */
  readonly hasLater: boolean
  /** The transfer time of the KV from the prefill worker is known. */
  readonly hasTransfer: boolean
  /** Some rank has not shown its speed yet. */
  readonly hasUntried: boolean
}
