/** The state of one decision: the request's hashes, constraints and weights, and the exclusions noted so far. */
import type { Clock, Random } from '../../base/index.ts'
import type { SequenceHashes } from '../../kv/index.ts'
import type { ActiveSequences } from '../load/active-sequences.ts'
import type { BusyThresholds } from '../configuration/busy-threshold.ts'
import { overrideWeights } from '../cost/weights.ts'
import type { CostWeights } from '../cost/weights.ts'
import type { ExclusionRecord } from './decision-record.ts'
import { addComputedAgain } from './computed-again.ts'
import { constraintsOf } from './eligibility.ts'
import type { Constraints } from './eligibility.ts'
import type { OpenPrompts } from '../load/open-prompts.ts'
import type { OverlapIndex } from '../load/overlap-index.ts'
import type { BlockRange } from '../cost/policy-part.ts'
import type { LaterTurns, Turn } from '../load/later-turns.ts'
import type { PriceRows } from '../load/price-rows.ts'
import type { PromptHasher } from '../load/prompt-hasher.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'
import type { RankRates } from '../load/rank-rates.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import { goalsLeft } from './goals-left.ts'
import type { GoalsLeft } from './goals-left.ts'
import type { TransferLine, TransferRates } from '../load/transfer-rates.ts'
import type { SelectionQuery } from './selection.ts'

/** The pool of the following leg, as far as a decision about a prefill reads it. */
export interface OnwardRoom {
  /** KV must stay inside domains. */
  readonly hasDomains: boolean
  /** Whether a prefill on this rank finds a place for decode: in its domain, and where `next` may run. */
  isOpenFor(slot: number, next: SelectionQuery | undefined): boolean
  /** The decode ranks where the next leg of a prefill on this rank may run. */
  groupOf(slot: number, next: SelectionQuery | undefined): RankGroup
}

/** The parts of a pool's state that decisions read. */
export interface PoolParts {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly random: Random
  readonly table: RankTable
  readonly rates: RankRates
  readonly backlog: RankBacklog
  readonly rows: PriceRows
  readonly turns: LaterTurns
  readonly open: OpenPrompts
  readonly transfers: TransferRates
  readonly sequences: ActiveSequences
  readonly index: OverlapIndex
  readonly hasher: PromptHasher
  readonly blockSize: () => number
  /** True if some worker has reported its block size. */
  readonly knowsBlocks: () => boolean
  readonly busy: () => BusyThresholds
  readonly onward: () => OnwardRoom | null
}

export interface DecisionScope {
  readonly query: SelectionQuery
  readonly nowMs: number
  /** Null if the request has no latency goals, or predictions are not reliable enough to use them. */
  readonly goals: GoalsLeft | null
  /**
   * KV transfer times: to each candidate from the prefill worker, or (for prefill) from each candidate to its best
   * decode worker. Null if there is no transfer or no transfer has been measured.
   */
  readonly transfer: TransferLine | null
  constraints: Constraints
  readonly hashes: SequenceHashes | null
  /** The request's turn in its session; null if turns are not part of the cost. */
  readonly turn: Turn | null
  /** Expected number of later turns that will follow to the chosen rank. */
  readonly laterTurns: number
  readonly promptBlocks: number
  /** Blocks of the prompt in a shared cache. */
  readonly shared: readonly BlockRange[]
  readonly weights: CostWeights
  readonly blockSize: number
  readonly promptTokens: number
  readonly trackPrefill: boolean
  /** Lowest active prefill tokens of all candidates; computed only if the overlap credit decays. */
  minActivePrefillTokens: number
  readonly assumeKvReuse: boolean
  /** Blocks that the request adds to a rank that shares none of them. */
  readonly trackedBlocks: number
  /** By slot: cached tokens that the request is expected to compute again. */
  readonly again: Float64Array
  readonly excluded: ExclusionRecord[]
  overloadedCount: number
}

/** Scratch columns of a decision, by slot. */
interface RankColumns {
  /** Leading blocks of the prompt that active requests on the rank use. */
  depths: Int32Array
  again: Float64Array
}

/**
 * Starts a decision and looks up the prompt: cached blocks go into the index's `matches`, blocks of active requests
 * into `depths`, and cached tokens that it would compute again into `again`. Without `withOverlap` nothing is looked
 * up; the scope can then only be used to check eligibility.
 */
export function openScope(
  pool: PoolParts,
  query: SelectionQuery,
  { depths, again }: RankColumns,
  withOverlap: boolean,
): DecisionScope {
  const { config, clock, hasher, sequences, index } = pool
  const { request, phase } = query
  const nowMs = clock.nowMs()
  const { overrides } = request.routing
  const blockSize = pool.blockSize()
  const assumeKvReuse = overrides?.assumeKvReuse ?? config.assumeKvReuse
  // An embedding request neither reads nor leaves cached KV.
  const hasKv = config.mode === 'kv' && request.kind !== 'embed' && pool.knowsBlocks()
  const hashes = withOverlap && hasKv ? hasher.hash(request, blockSize, phase) : null
  sequences.refresh(nowMs)
  if (hashes === null) index.matches.clear()
  else index.find(hashes, nowMs)
  again.fill(0)
  if (config.cost === 'time' && hashes !== null && phase !== 'decode') {
    addComputedAgain(pool, hashes, blockSize, nowMs, again)
  }
  const weights = overrideWeights(config, overrides)
  const hasTurns = config.cost === 'time' && phase === 'aggregated' && hashes !== null
  const turn = hasTurns ? pool.turns.find(hashes, request.routing.sessionId !== undefined) : null
  const hasShared = hashes !== null && weights.sharedCacheMultiplier > 0
  const isTracked = config.trackActiveBlocks && hashes !== null
  if (isTracked && assumeKvReuse) sequences.depths(hashes.sequence, depths)
  else depths.fill(0)
  return {
    query,
    nowMs,
    goals: goalsLeft(config, pool.rates, query, nowMs),
    transfer: transferOf(pool, query, nowMs),
    constraints: constraintsOf(request.routing, phase, pool.table),
    hashes,
    turn,
    laterTurns: turn === null ? 0 : pool.turns.expected(turn),
    assumeKvReuse,
    shared: hasShared ? (config.sharedCache?.(hashes.sequence, request) ?? []) : [],
    promptBlocks: Math.ceil(request.tokenIds.length / blockSize),
    trackedBlocks: isTracked ? hashes.sequence.length / 2 : 0,
    weights,
    blockSize,
    promptTokens: request.tokenIds.length,
    trackPrefill: overrides?.trackPrefillTokens ?? config.trackPrefillTokens,
    minActivePrefillTokens: 0,
    again,
    excluded: [],
    overloadedCount: 0,
  }
}

function transferOf(
  { config, transfers }: PoolParts,
  { request, phase }: SelectionQuery,
  nowMs: number,
): TransferLine | null {
  const { prefillWorkerId } = request.routing
  if (config.cost !== 'time') return null
  if (phase === 'prefill') return transfers.onward(nowMs)
  if (phase !== 'decode' || prefillWorkerId === undefined) return null
  return transfers.from(prefillWorkerId, nowMs)
}
