/**
 * Why a request went where it went: one record per decision, kept in a bounded ring.
 *
 * Owns: the record's shape and the ring. A record is small: only the best candidates and the first exclusions are kept.
 */
import type { ErrorCode, WorkerId } from '../../base/index.ts'
import type { Phase } from '../../request/index.ts'
import type { TermValues, WeighedTerm } from '../cost/cost-function.ts'
import type { RouterMode } from '../configuration/router-config.ts'

export interface CandidateRecord {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly cost: number
  /** Value of each cost term by its name, before its weight. */
  readonly terms: TermValues
}

/**
 * The record of a priced candidate. Its terms get their names when somebody reads them: naming the values of sixteen
 * candidates would cost a decision more than pricing a hundred ranks.
 */
export class PricedCandidate implements CandidateRecord {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly cost: number
  readonly #terms: readonly WeighedTerm[]
  readonly #values: readonly number[]

  constructor(
    rank: { readonly workerId: WorkerId; readonly dpRank: number; readonly cost: number },
    terms: readonly WeighedTerm[],
    values: readonly number[],
  ) {
    this.workerId = rank.workerId
    this.dpRank = rank.dpRank
    this.cost = rank.cost
    this.#terms = terms
    this.#values = values
  }

  get terms(): TermValues {
    return Object.fromEntries(this.#terms.map(({ name }, i) => [name, this.#values[i] ?? 0]))
  }

  toJSON(): CandidateRecord {
    const { workerId, dpRank, cost, terms } = this
    return { workerId, dpRank, cost, terms }
  }
}

export interface ExclusionRecord {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly reason: string
}

export type ChoiceReason =
  | 'lowest cost'
  | 'drawn at temperature'
  | 'custom picker'
  | 'pinned by the request'
  | 'prefill bypassed'
  | 'bound session'
  | 'preferred session'
  | 'round robin'
  | 'random'
  | 'fewest requests'
  | 'fewest requests, predictions are off'
  | 'better of two'

export interface DecisionRecord {
  readonly requestId: string
  readonly phase: Phase
  readonly atMs: number
  readonly atEpochMs: number
  readonly mode: RouterMode
  readonly promptTokens: number
  readonly promptBlocks: number
  readonly queuedMs: number
  /** How many ranks were looked at, how many of them were eligible. */
  readonly ranksSeen: number
  readonly ranksEligible: number
  /** The terms of the candidates' costs, in order, with the weights of this decision; empty when none was priced. */
  readonly terms: readonly WeighedTerm[]
  /** Best first; at most `explainCandidates`. */
  readonly candidates: readonly CandidateRecord[]
  readonly excluded: readonly ExclusionRecord[]
  readonly outcome:
    | {
        readonly kind: 'routed'
        readonly workerId: WorkerId
        readonly dpRank: number
        readonly overlapBlocks: number
        readonly cachedTokens: number
        readonly reason: ChoiceReason
        /** Until its first token, as predicted from what the rank has shown; absent: nothing is known of the pool yet. */
        readonly predictedTtftMs?: number
        /** What came; absent: nothing yet. */
        ttftMs?: number
      }
    | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  /** What the prefill router thought of it. */
  readonly disaggregation?: string
}

/** Keeps the last `limit` records; finds all of one request, in order. */
export class DecisionRing {
  readonly #limit: number
  readonly #records: DecisionRecord[] = []
  /** Where the newest record of a request lies, and for each record where the one before it lay (-1: there is none). */
  readonly #newest = new Map<string, number>()
  readonly #before: number[] = []
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(record: DecisionRecord): void {
    const place = this.#next
    const old = this.#records[place]
    if (old !== undefined && this.#newest.get(old.requestId) === place) {
      this.#newest.delete(old.requestId)
    }
    this.#before[place] = this.#newest.get(record.requestId) ?? -1
    this.#newest.set(record.requestId, place)
    this.#records[place] = record
    this.#next = (place + 1) % this.#limit
  }

  get(requestId: string): readonly DecisionRecord[] | null {
    const found: DecisionRecord[] = []
    let age = -1
    let place = this.#newest.get(requestId) ?? -1
    while (place !== -1) {
      const record = this.#records[place] as DecisionRecord
      const recordAge = (this.#next - 1 - place + this.#limit) % this.#limit
      // The place was given to a newer record: what lay there has been forgotten.
      if (record.requestId !== requestId || recordAge <= age) break
      found.push(record)
      age = recordAge
      place = this.#before[place] as number
    }
    return found.length === 0 ? null : found.reverse()
  }

  get size(): number {
    return this.#records.length
  }
}
