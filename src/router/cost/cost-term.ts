/**
 * A cost term as data: what it is called, what it weighs, in which unit, and how it is read off a candidate.
 *
 * Built-in terms and the terms that a user adds (`scorers`, `--scorer`) are the same thing: configuration, pricing,
 * records, `explain`, the decision header and the docs read this and nothing else.
 */
import type { GenerateRequest } from '../../request/index.ts'
import type { Candidate } from './candidate.ts'

/**
 * How a value enters the cost.
 * - `add`: weight × value is added.
 * - `credit`: weight × value is taken off the prefill work, which never falls below 0 (for a decode leg without prefill:
 *   off the decode blocks).
 * - `factor`: the sum of the terms before it is multiplied with the value.
 */
export type TermRole = 'add' | 'credit' | 'factor'

export interface CostTerm {
  /** Names its column in `explain` and its value in a record; no two terms of a router share a name. */
  readonly name: string
  /** Of the value, for the reader: `blocks`, `requests`, `kW` … The cost is in blocks. */
  readonly unit?: string
  readonly role?: TermRole
  /** Not asked of a `factor`. */
  readonly weight?: number
  /** Called for every candidate of every decision: no waiting, no side effect. Lower costs win. */
  of(candidate: Candidate, request: GenerateRequest): number
}

/** A weight that can be configured: it is a router option of that name. */
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
  /** The credits are taken off this term's value, for decisions of which this is true. */
  readonly isLowered?: (decision: DecisionKind) => boolean
  /** False: the value is neutral for every candidate of such a decision, and is not asked for. */
  readonly applies?: (decision: DecisionKind) => boolean
  readonly of: (candidate: Candidate, request: GenerateRequest) => number
}

/** What is the same for all candidates of a decision and says which terms matter, and how. */
export interface DecisionKind {
  readonly isDecode: boolean
  readonly trackPrefill: boolean
  readonly overlapScoreCredit: number
  readonly hasPreferredTaints: boolean
  /** Some rank holds blocks of the prompt behind its device. */
  readonly hasLowerTiers: boolean
  /** A shared cache holds blocks of the prompt. */
  readonly hasShared: boolean
  /** The request has latency goals that can be gone by. */
  readonly hasGoals: boolean
  /** Later turns are expected to go where it goes. */
  readonly hasLater: boolean
  /** It is known how long its KV takes from the prefill worker. */
  readonly hasTransfer: boolean
}
