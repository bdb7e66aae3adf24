/**
 * The user-defined parts of a routing policy: a filter excludes candidates, a scorer is a cost term, a picker chooses
 * among the costs. `examples/scorer.ts` shows them.
 */
import type { Random } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import type { Candidate } from './candidate.ts'
import type { CostTerm } from './cost-term.ts'

/** Returns null if the candidate may be chosen, otherwise the reason why not, which `explain` shows. */
export type Filter = (candidate: Candidate, request: GenerateRequest) => string | null

/** A user-defined cost term; same shape as a built-in one. */
export type Scorer = CostTerm

/** Returns the index of the chosen candidate among `costs[0 .. count)`; count is at least 1. */
export type Picker = (costs: Float64Array, count: number, random: Random) => number

/** Blocks `[start, end)` of a prompt, as block indexes. */
export type BlockRange = readonly [start: number, end: number]

/**
 * Returns which blocks of a prompt are in a cache that all workers share, as ordered, non-overlapping ranges.
 * `sequenceHashes` are pairs of u32. Called synchronously once per decision, so it must answer from local state. The
 * result is weighted with `sharedCacheMultiplier`.
 */
export type SharedCache = (
  sequenceHashes: Uint32Array,
  request: GenerateRequest,
) => readonly BlockRange[]
