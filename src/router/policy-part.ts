/**
 * The small parts that a routing policy is made of: a filter says who may not, a scorer adds to a cost, a picker takes
 * one of the costs. Each is a plain function; `examples/scorer.ts` shows one.
 *
 * A candidate is one rank of one worker.
 */
import type { Random } from '../base/index.ts'
import type { GenerateRequest, WorkerCard } from '../request/index.ts'

export interface Candidate {
  readonly card: WorkerCard
  readonly dpRank: number
  readonly activePrefillTokens: number
  readonly activeDecodeBlocks: number
  readonly activeRequests: number
  /** Blocks of the prompt that the rank holds in device memory. */
  readonly overlapBlocks: number
  readonly promptBlocks: number
}

/** A reason why the candidate must not be taken, or null. The reason is shown by `explain`. */
export type Filter = (candidate: Candidate, request: GenerateRequest) => string | null

/** Added to the cost, in blocks; lower wins. `name` is shown by `explain`. */
export interface Scorer {
  readonly name: string
  score(candidate: Candidate, request: GenerateRequest): number
}

/** Index of the chosen one among `costs[0 .. count)`; count is at least 1. */
export type Picker = (costs: Float64Array, count: number, random: Random) => number

/** Blocks `[start, end)` of a prompt. */
export type BlockRange = readonly [start: number, end: number]

/**
 * What a cache that all workers share holds of a prompt (sequence hashes, pairs of u32): ranges in order that do not
 * overlap. Asked once per decision, so it answers from what it knows; it counts with `sharedCacheMultiplier`.
 */
export type SharedCache = (
  sequenceHashes: Uint32Array,
  request: GenerateRequest,
) => readonly BlockRange[]
