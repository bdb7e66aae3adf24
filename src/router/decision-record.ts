/**
 * Why a request went where it went: one record per decision, kept in a bounded ring.
 *
 * Owns: the record's shape and the ring. A record is small: only the best candidates and the first exclusions are kept.
 */
import type { ErrorCode, WorkerId } from '../base/index.ts'
import type { Phase } from '../request/index.ts'
import type { RouterMode } from './router-config.ts'

/** The terms of one candidate's cost, in blocks; see `cost.ts`. */
export interface CostTerms {
  readonly prefillBlocks: number
  readonly credit: number
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly diskBlocks: number
  /** Of a shared cache, behind what the device holds. */
  readonly sharedBlocks: number
  readonly decay: number
  readonly decodeBlocks: number
  readonly activeRequests: number
  /** Product of the preferred taints. */
  readonly taintFactor: number
  /** Sum of the user's scorers. */
  readonly extra: number
}

export interface CandidateRecord extends CostTerms {
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly cost: number
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
      }
    | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  /** What the prefill router thought of it. */
  readonly disaggregation?: string
}

/** Keeps the last `limit` records; finds all of one request, in order. */
export class DecisionRing {
  readonly #limit: number
  readonly #records: (DecisionRecord | undefined)[] = []
  readonly #byRequest = new Map<string, DecisionRecord[]>()
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(record: DecisionRecord): void {
    const old = this.#records[this.#next]
    if (old !== undefined) this.#forget(old)
    this.#records[this.#next] = record
    this.#next = (this.#next + 1) % this.#limit
    const known = this.#byRequest.get(record.requestId)
    if (known === undefined) this.#byRequest.set(record.requestId, [record])
    else known.push(record)
  }

  get(requestId: string): readonly DecisionRecord[] | null {
    return this.#byRequest.get(requestId) ?? null
  }

  get size(): number {
    return this.#records.length
  }

  #forget(record: DecisionRecord): void {
    const known = this.#byRequest.get(record.requestId)
    if (known === undefined) return
    if (known.length === 1) this.#byRequest.delete(record.requestId)
    else known.shift()
  }
}
