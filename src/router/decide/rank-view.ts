/**
 * The candidate as seen by cost terms and filters: a view of the pool's columns at one slot.
 *
 * There is one object per pool. It is bound to the columns once per decision and moved from slot to slot, so that
 * pricing a thousand ranks allocates nothing and a term pays only for the fields that it reads.
 */
import type { Phase, WorkerCard } from '../../request/index.ts'
import type { Candidate } from '../cost/candidate.ts'
import type { BlockRange } from '../cost/policy-part.ts'
import type { LaterTurns } from '../load/later-turns.ts'
import type { OverlapIndex } from '../load/overlap-index.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'
import type { RankRates } from '../load/rank-rates.ts'
import { expectedExcess } from './expected-excess.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { lateMs } from './goals-left.ts'
import { boundAt, busyShare } from './later-pricing.ts'
import { riskAt } from './risk-pricing.ts'

const NO_COLUMN: Int32Array = new Int32Array(0)
const NO_LOAD: Float64Array = new Float64Array(0)
const NO_RANGES: readonly BlockRange[] = []

export class RankView implements Candidate {
  // Read by the built-in terms; set by `moveTo`.
  deviceBlocks = 0
  hostBlocks = 0
  diskBlocks = 0
  sharedBlocks = 0
  cachedTokens = 0
  decay = 1
  activePrefillTokens = 0
  activeDecodeBlocks = 0
  additionalBlocks = 0
  activeRequests = 0
  // The same for all candidates of a decision; set by `open`.
  phase: Phase = 'aggregated'
  promptTokens = 0
  promptBlocks = 0
  blockSize = 1
  queuedMs = 0
  tracksPrefill = true
  expectedOutputTokens = 0
  #slot = 0
  readonly #table: RankTable
  readonly #index: OverlapIndex
  readonly #rates: RankRates
  readonly #backlog: RankBacklog
  readonly #turns: LaterTurns
  #nowMs = 0
  #scope: DecisionScope | null = null
  #device = NO_COLUMN
  #host = NO_COLUMN
  #disk = NO_COLUMN
  #depths = NO_COLUMN
  #again = NO_LOAD
  #requests = NO_COLUMN
  #peerRequests = NO_COLUMN
  #reportedRequests = NO_COLUMN
  #reportedPrefill = NO_LOAD
  #reportedDecode = NO_LOAD
  #prefill = NO_LOAD
  #decode = NO_LOAD
  #shared = NO_RANGES
  #trackedBlocks = 0
  #hasMoreTiers = false
  #hostWeight = 0
  #diskWeight = 0
  #decayWeight = 0
  #leastPrefill = 0
  #hasPreferredTaints = false

  constructor({ table, index, rates, backlog, turns }: PoolParts) {
    this.#table = table
    this.#index = index
    this.#rates = rates
    this.#backlog = backlog
    this.#turns = turns
  }

  /** Binds the view to a decision. `depths`: by slot, leading blocks of the prompt that active requests on it use. */
  open(scope: DecisionScope, depths: Int32Array): void {
    const { device, host, disk, hasLower } = this.#index.matches
    const { weights, query } = scope
    const preferred = query.request.routing.preferredTaints
    this.#scope = scope
    this.#nowMs = scope.nowMs
    this.expectedOutputTokens = this.#outputOf(scope)
    this.#device = device
    this.#host = host
    this.#disk = disk
    this.#depths = depths
    this.#again = scope.again
    this.#requests = this.#table.activeRequests
    this.#prefill = this.#table.activePrefillTokens
    this.#decode = this.#table.activeDecodeBlocks
    this.#peerRequests = this.#table.peerRequests
    this.#reportedRequests = this.#table.reportedRequests
    this.#reportedPrefill = this.#table.reportedPrefillTokens
    this.#reportedDecode = this.#table.reportedDecodeBlocks
    this.#shared = scope.shared
    this.#hasMoreTiers = hasLower || scope.shared.length > 0
    this.hostBlocks = 0
    this.diskBlocks = 0
    this.sharedBlocks = 0
    this.decay = 1
    this.#trackedBlocks = scope.trackedBlocks
    this.#hostWeight = weights.hostCacheHitWeight
    this.#diskWeight = weights.diskCacheHitWeight
    this.#decayWeight = scope.trackPrefill ? weights.overlapScoreCreditDecay : 0
    this.#leastPrefill = scope.minActivePrefillTokens
    this.#hasPreferredTaints = preferred !== undefined && Object.keys(preferred).length > 0
    this.phase = query.phase
    this.promptTokens = scope.promptTokens
    this.promptBlocks = scope.promptBlocks
    this.blockSize = scope.blockSize
    this.queuedMs = query.queuedMs
    this.tracksPrefill = scope.trackPrefill
  }

  moveTo(slot: number): void {
    const device = this.#device[slot] as number
    const prefill = Math.max(this.#prefill[slot] as number, this.#reportedPrefill[slot] as number)
    this.#slot = slot
    this.deviceBlocks = device
    this.cachedTokens = device * this.blockSize - (this.#again[slot] as number)
    this.activePrefillTokens = prefill
    this.activeDecodeBlocks = Math.max(
      Math.round(this.#decode[slot] as number),
      this.#reportedDecode[slot] as number,
    )
    this.additionalBlocks = Math.max(this.#trackedBlocks - (this.#depths[slot] as number), 0)
    this.activeRequests = Math.max(
      (this.#requests[slot] as number) + (this.#peerRequests[slot] as number),
      this.#reportedRequests[slot] as number,
    )
    if (this.#decayWeight > 0) this.decay = this.#decayAt(prefill)
    if (this.#hasMoreTiers) this.#setMoreTiers(slot, device)
  }

  #setMoreTiers(slot: number, device: number): void {
    const host = this.#host[slot] as number
    const disk = this.#disk[slot] as number
    this.hostBlocks = host
    this.diskBlocks = disk
    this.sharedBlocks = blocksBehind(this.#shared, device)
    const cached = device + host * this.#hostWeight + disk * this.#diskWeight
    this.cachedTokens = Math.max(0, Math.round(cached * this.blockSize))
  }

  get card(): WorkerCard {
    return this.#table.row(this.#slot).card
  }

  get dpRank(): number {
    return this.#table.row(this.#slot).dpRank
  }

  get taints(): ReadonlySet<string> {
    return this.#table.row(this.#slot).taints
  }

  get queuedRequests(): number {
    return this.#table.row(this.#slot).reportedQueued
  }

  get totalBlocks(): number | null {
    return (this.#table.totalBlocks[this.#slot] as number) || null
  }

  get maxBatchedTokens(): number {
    return this.#table.maxBatchedTokens[this.#slot] as number
  }

  get holdsSession(): boolean {
    const target = this.#scope?.query.affinity?.target
    if (target === undefined) return false
    const { card, dpRank } = this.#table.row(this.#slot)
    return target.workerId === card.workerId && (target.dpRank ?? dpRank) === dpRank
  }

  get taintFactor(): number {
    if (!this.#hasPreferredTaints) return 1
    return taintFactor(this.#scope?.query.request.routing.preferredTaints ?? {}, this.taints)
  }

  get msPerPromptToken(): number {
    return this.#rates.perTokenMs(this.#slot)
  }

  get prefillMs(): number {
    return (this.#rates.prefillFactor[this.#slot] as number) * this.#rates.prefillMs
  }

  get waitMs(): number {
    return (
      Math.max(this.#rates.waitShare, 1) *
      this.#backlog.waitMs(this.#slot, this.#nowMs, this.prefillMs)
    )
  }

  get riskMs(): number {
    if (!this.tracksPrefill) return 0
    const uncached = Math.max(this.promptTokens - this.cachedTokens, 0)
    return riskAt(this.#rates, this.#backlog, this.#slot, uncached, this.#nowMs)
  }

  get placeMs(): number {
    const excess = expectedExcess(this.#table.excessOf(this.#slot))
    const places = this.#table.maxSequences[this.#slot] as number
    return this.#rates.placeMs(this.#slot, excess, places, this.contextTokens)
  }

  get waitingRequests(): number {
    return this.#backlog.waiting[this.#slot] as number
  }

  get firstRequests(): number {
    return (this.#backlog.open[this.#slot] as number) - this.waitingRequests
  }

  get joinShare(): number {
    return this.#backlog.joinShare(this.#slot, this.#nowMs)
  }

  get promptShare(): number {
    return this.#backlog.promptShare(this.#slot, this.#nowMs)
  }

  get runningRequests(): number {
    return this.#backlog.runningOn(this.#slot)
  }

  get contextTokens(): number {
    return this.#backlog.contextTokens[this.#slot] as number
  }

  get stepMs(): number {
    return (this.#rates.stepFactor[this.#slot] as number) * this.#rates.stepMs
  }

  get stepMsPerRequest(): number {
    return (this.#rates.stepFactor[this.#slot] as number) * this.#rates.stepMsPerRequest
  }

  get stepMsPerContextToken(): number {
    return (this.#rates.stepFactor[this.#slot] as number) * this.#rates.stepMsPerContextToken
  }

  /** Duration of a decode step on the rank now; 0 if nothing decodes. */
  get #currentStepMs(): number {
    const running = this.runningRequests
    return running > 0 ? this.#rates.stepMsAt(this.#slot, running, this.contextTokens) : 0
  }

  get restMs(): number {
    return this.#backlog.restMs(this.#slot, this.#currentStepMs, this.#nowMs)
  }

  get promptsBehind(): number {
    return this.#backlog.behind / Math.max(this.#table.live.length, 1)
  }

  get stepShare(): number {
    return this.#rates.stepShare
  }

  get reuseShare(): number {
    return this.#rates.reuseShare
  }

  get usualOutputTokens(): number {
    return this.#rates.outputTokens
  }

  get laterTurns(): number {
    return this.#scope?.laterTurns ?? 0
  }

  get laterTokens(): number {
    return this.#turns.newTokens
  }

  get boundRequests(): number {
    const turn = this.#scope?.turn ?? null
    if (turn === null) return 0
    const bound = boundAt(this.#turns, turn, this.#slot)
    return bound * busyShare(this.#rates, this.#turns, this.promptTokens)
  }

  get predictedTtftMs(): number {
    if (!this.tracksPrefill) return 0
    const uncached = Math.max(this.promptTokens - this.cachedTokens, 0)
    const waitMs = this.#backlog.waitMs(this.#slot, this.#nowMs, this.prefillMs)
    const untilMs = this.#currentStepMs + this.restMs
    return this.placeMs + this.#rates.predictedTtftMs(this.#slot, uncached, waitMs, untilMs)
  }

  get predictedItlMs(): number {
    if (this.phase === 'prefill') return 0
    const contexts = this.contextTokens + this.promptTokens
    return this.#rates.itlMs(this.#slot, this.#backlog.requestsOn(this.#slot) + 1, contexts)
  }

  get transferMs(): number {
    const transfer = this.#scope?.transfer ?? null
    if (transfer === null) return 0
    // Blocks cached on a prefill worker have to be transferred as well.
    const held = this.phase === 'prefill' ? 0 : this.cachedTokens
    const moved = Math.max(this.promptTokens - held, 0)
    const { startMs, msPerToken } = transfer
    return (startMs + msPerToken * moved) * transfer.factorTo(this.card.workerId)
  }

  get goalLateMs(): number {
    const goals = this.#scope?.goals ?? null
    if (goals === null) return 0
    return lateMs(goals, this.predictedTtftMs, this.predictedItlMs, this.expectedOutputTokens)
  }

  #outputOf({ query: { request } }: DecisionScope): number {
    const { routing, stop } = request
    const expected = routing.expectedOutputTokens ?? this.#rates.outputTokens
    return Math.min(expected, stop.maxTokens ?? Infinity)
  }

  /** Factor of the overlap credit: it falls as the rank has more prefill in flight than the idlest candidate. */
  #decayAt(activePrefillTokens: number): number {
    const ahead = Math.max(activePrefillTokens - this.#leastPrefill, 0)
    const promptBlocks = Math.max(this.promptBlocks, 1)
    return 1 / (1 + (this.#decayWeight * (ahead / this.blockSize)) / promptBlocks)
  }
}

/** exp(−tanh(Σ weights)) over the preferred taints that the worker has: 1 without a match, always within [1/e, e]. */
export function taintFactor(
  preferred: Readonly<Record<string, number>>,
  taints: ReadonlySet<string>,
): number {
  let sum = 0
  for (const [taint, weight] of Object.entries(preferred)) if (taints.has(taint)) sum += weight
  return Math.exp(-Math.tanh(sum))
}

/** Number of blocks in the ranges at or after index `from`. */
function blocksBehind(ranges: readonly BlockRange[], from: number): number {
  let blocks = 0
  for (const [start, end] of ranges) blocks += Math.max(0, end - Math.max(start, from))
  return blocks
}
