/**
 * Why a request was routed to its worker: one record per decision, kept in a bounded ring buffer.
 *
 * Owns the record's shape and the ring. A record is small: only the best candidates and the first exclusions are
 * stored.
 */
import type { ErrorCode, WorkerId } from '../../base/index.ts'
import type { Phase } from '../../request/index.ts'
import type { TermValues, WeighedTerm } from '../cost/cost-function.ts'
import type { RouterMode } from '../configuration/router-config.ts'

export interface CandidateRecord {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly cost: number
  /** Value of each cost term by its name, before its weight is applied. */
  readonly terms: TermValues
}

/**
 * The record of a priced candidate. The object of named terms is built lazily on first read: building it for sixteen
 * candidates would cost more than pricing a hundred ranks.
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
  | 'lowest cost in blocks, predictions are off'
  | 'drawn at temperature'
  | 'custom picker'
  | 'pinned by the request'
  | 'prefill bypassed'
  | 'bound session'
  | 'preferred session'
  | 'round robin'
  | 'random'
  | 'fewest requests'
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
  /** Number of ranks examined, and of those the number that was eligible. */
  readonly ranksSeen: number
  readonly ranksEligible: number
  /** The cost terms in order, with the weights of this decision; empty if no candidate was priced. */
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
        /** Tokens of these blocks, in any tier: the cost counts those in host memory and on disk only in part. */
        readonly cachedTokens: number
        readonly reason: ChoiceReason
        /** Predicted time to the first token; absent if nothing is known about the pool yet. */
        readonly predictedTtftMs?: number
        /** Measured time to the first token; absent until it has arrived. */
        ttftMs?: number
      }
    | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  /** The prefill router's reason for or against disaggregation. */
  readonly disaggregation?: string
}

/** Keeps the last `limit` records and finds all records of one request, in order. */
export class DecisionRing {
  readonly #limit: number
  readonly #records: DecisionRecord[] = []
  /**
   * Position of the newest record of each request; and for each record the position of the request's previous one
   * (-1: none).
   */
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
      // The position was reused by a newer record: the older records have been overwritten.
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
