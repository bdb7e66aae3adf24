/**
 * The small parts that a routing policy is made of: a filter says who may not, a scorer is a term of the cost, a picker
 * takes one of the costs. `examples/scorer.ts` shows them.
 */
import type { Random } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { Candidate } from './candidate.ts'
import type { CostTerm } from './cost-term.ts'

/** A reason why the candidate must not be taken, or null. The reason is shown by `explain`. */
export type Filter = (candidate: Candidate, request: GenerateRequest) => string | null

/** A cost term of the user's: the same thing as a built-in one. */
export type Scorer = CostTerm

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
