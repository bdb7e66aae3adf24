/**
 * The decision: eligibility, then cost, then pick. Pure with regard to the pool: nothing is booked here.
 *
 * Owns: the scratch columns of one decision. All that a decision needs is in columns already; the loop over the ranks
 * allocates nothing.
 */
import { BatonError, randomInt } from '../base/index.ts'
import type { Clock, Random } from '../base/index.ts'
import type { BlockHashes } from '../kv/index.ts'
import type { ActiveSequences } from './active-sequences.ts'
import {
  cachedTokensOf,
  costOf,
  effectiveOverlapBlocks,
  newCostCandidate,
  overrideWeights,
  taintFactor,
} from './cost.ts'
import type { CostRequest } from './cost.ts'
import { recordCandidates, refusalError } from './decision-notes.ts'
import type { ChoiceReason, DecisionRecord, ExclusionRecord } from './decision-record.ts'
import { constraintsOf, describeExclusion, exclusionOf, isUnconstrained } from './eligibility.ts'
import type { Constraints, Exclusion } from './eligibility.ts'
import type { OverlapIndex } from './overlap-index.ts'
import { pickAtTemperature, pickOfTwo } from './pick.ts'
import { missingPin, pinnedSlot, pinOf } from './pin.ts'
import type { Pin } from './pin.ts'
import type { Candidate } from './policy-part.ts'
import type { PromptHasher } from './prompt-hasher.ts'
import type { RankTable } from './rank-table.ts'
import type { RouterConfig } from './router-config.ts'
import type { Refusal, Selection, SelectionQuery } from './selection.ts'

export interface SelectorParts {
  readonly config: RouterConfig
  readonly clock: Clock
  readonly random: Random
  readonly table: RankTable
  readonly sequences: ActiveSequences
  readonly index: OverlapIndex
  readonly hasher: PromptHasher
  readonly blockSize: () => number
}

/** What one decision knows beside the pool. */
interface Scope {
  readonly query: SelectionQuery
  readonly nowMs: number
  constraints: Constraints
  readonly hashes: BlockHashes | null
  readonly promptBlocks: number
  readonly cost: CostRequest
  readonly assumeKvReuse: boolean
  /** Blocks that the request adds to a rank which shares none. */
  readonly trackedBlocks: number
  readonly excluded: ExclusionRecord[]
  excludedCount: number
  overloadedCount: number
}

const EXCLUSIONS_KEPT = 16

export class Selector {
  readonly #parts: SelectorParts
  #depths = new Int32Array(0)
  #candidates = new Int32Array(0)
  #costs = new Float64Array(0)
  readonly #view = newCostCandidate()
  #cursor = 0

  constructor(parts: SelectorParts) {
    this.#parts = parts
  }

  /** `peek`: the round-robin cursor stays where it is. */
  select(query: SelectionQuery, peek = false): Selection | Refusal {
    this.#fit()
    const scope = this.#scopeOf(query)
    const { config, table } = this.#parts
    const { request, phase } = query
    const pin = pinOf(request.routing, phase)
    if (pin !== null) {
      const slot = pinnedSlot(table, withKnownRank(pin, query), phase)
      return slot instanceof BatonError
        ? this.#refuse(scope, slot, 0)
        : this.#takeExactly(scope, slot, 'pinned by the request')
    }
    const { affinity } = query
    if (affinity !== null && affinity !== undefined) {
      const slot = pinnedSlot(table, affinity.target, phase)
      if (!affinity.soft) {
        return slot instanceof BatonError
          ? this.#refuse(scope, slot, 0)
          : this.#takeExactly(scope, slot, 'bound session')
      }
      if (!(slot instanceof BatonError) && this.#exclusion(scope, slot) === null) {
        return this.#select(scope, slot, 1, 'preferred session')
      }
    }
    if (config.mode === 'direct') return this.#refuse(scope, missingPin(phase), 0)
    const count = this.#gather(scope)
    if (count === 0) return this.#refuse(scope, refusalError(scope, this.#summary(scope)), 0)
    return this.#pick(scope, count, peek)
  }

  /** Slots that could take the request now; for the queue. */
  eligible(query: SelectionQuery): readonly number[] {
    this.#fit()
    const scope = this.#scopeOf(query, this.#parts.config.filters.length > 0)
    const { table } = this.#parts
    const pin = pinOf(query.request.routing, query.phase) ?? hardTarget(query)
    if (pin === null) return table.live.filter((slot) => this.#exclusion(scope, slot) === null)
    const slot = pinnedSlot(table, pin, query.phase)
    return slot instanceof BatonError || this.#exclusion(scope, slot) !== null ? [] : [slot]
  }

  bestCachedTokens(query: SelectionQuery): number {
    this.#fit()
    const scope = this.#scopeOf(query)
    const { matches } = this.#parts.index
    let best = 0
    for (let i = 0; i < matches.count; i++) {
      this.#look(scope, matches.holders[i] as number)
      best = Math.max(best, this.#view.cachedTokens)
    }
    return best
  }

  /** Without `withOverlap` nothing is looked up; only eligibility may be asked then. */
  #scopeOf(query: SelectionQuery, withOverlap = true): Scope {
    const { config, clock, hasher, blockSize, sequences, index } = this.#parts
    const { request, phase } = query
    const nowMs = clock.nowMs()
    const overrides = request.routing.overrides
    const size = blockSize()
    const assumeKvReuse = overrides?.assumeKvReuse ?? config.assumeKvReuse
    const hashes = withOverlap && config.mode === 'kv' ? hasher.hash(request, size) : null
    sequences.refresh(nowMs)
    if (hashes === null) index.matches.clear()
    else index.find(hashes, nowMs)
    const track = config.trackActiveBlocks && hashes !== null
    if (track && assumeKvReuse) sequences.depths(hashes.sequence, this.#depths)
    else this.#depths.fill(0)
    return {
      query,
      nowMs,
      constraints: constraintsOf(request.routing, phase),
      hashes,
      assumeKvReuse,
      promptBlocks: Math.ceil(request.tokenIds.length / size),
      trackedBlocks: track ? hashes.sequence.length / 2 : 0,
      cost: {
        weights: overrideWeights(config, overrides),
        blockSize: size,
        promptTokens: request.tokenIds.length,
        trackPrefill: overrides?.trackPrefillTokens ?? config.trackPrefillTokens,
        isDecode: phase === 'decode',
        minActivePrefillTokens: 0,
      },
      excluded: [],
      excludedCount: 0,
      overloadedCount: 0,
    }
  }

  /** Fills the candidate column; the reasons of the others are noted. */
  #gather(scope: Scope): number {
    const { table, config } = this.#parts
    const { live } = table
    if (isUnconstrained(scope.constraints) && !table.hasExclusions && config.filters.length === 0) {
      for (let i = 0; i < live.length; i++) this.#candidates[i] = live[i] as number
      return live.length
    }
    let count = 0
    let fenced: number[] | null = null
    for (const slot of live) {
      const exclusion = this.#exclusion(scope, slot)
      if (exclusion === null) this.#candidates[count++] = slot
      else {
        this.#note(scope, slot, exclusion)
        if (exclusion.kind === 'fenced') (fenced ??= []).push(slot)
      }
    }
    if (count > 0 || fenced === null || scope.overloadedCount > 0) return count
    scope.constraints = { ...scope.constraints, ignoresFences: true }
    for (const slot of fenced) {
      if (this.#exclusion(scope, slot) === null) this.#candidates[count++] = slot
    }
    return count
  }

  #exclusion(scope: Scope, slot: number): Exclusion | null {
    const { table, config } = this.#parts
    const { request } = scope.query
    const hard = exclusionOf(table, slot, scope.constraints, scope.nowMs)
    if (hard !== null || config.filters.length === 0) return hard
    const candidate = this.#candidate(scope, slot)
    for (const filter of config.filters) {
      const reason = filter(candidate, request)
      if (reason !== null) return { kind: 'filtered', detail: reason }
    }
    return null
  }

  #note(scope: Scope, slot: number, exclusion: Exclusion): void {
    scope.excludedCount++
    if (exclusion.kind === 'overloaded') scope.overloadedCount++
    if (scope.excluded.length >= EXCLUSIONS_KEPT) return
    const { card, dpRank } = this.#parts.table.row(slot)
    scope.excluded.push({
      workerId: card.workerId,
      dpRank,
      reason: describeExclusion(exclusion),
    })
  }

  #takeExactly(scope: Scope, slot: number, reason: ChoiceReason): Selection | Refusal {
    const exclusion = this.#exclusion(scope, slot)
    if (exclusion === null) return this.#select(scope, slot, 1, reason)
    this.#note(scope, slot, exclusion)
    const { workerId } = this.#parts.table.row(slot).card
    const overloaded = exclusion.kind === 'overloaded'
    const error = new BatonError(
      overloaded ? 'capacity.worker_overloaded' : 'backend.worker_unavailable',
      `${scope.query.phase} worker ${workerId} (${reason}) cannot be taken: ${describeExclusion(exclusion)}`,
      { data: { workerId, reason: exclusion.kind, ...(overloaded ? { retryAfterMs: 1000 } : {}) } },
    )
    return this.#refuse(scope, error, 0)
  }

  #pick(scope: Scope, count: number, peek: boolean): Selection {
    const { config, random, table } = this.#parts
    const candidates = this.#candidates
    const at = (i: number): number => candidates[i] as number
    const requests = (i: number): number => table.activeRequests[at(i)] as number
    switch (config.mode) {
      case 'round-robin': {
        const i = this.#cursor % count
        if (!peek) this.#cursor = (this.#cursor + 1) % 0x40000000
        return this.#select(scope, at(i), count, 'round robin')
      }
      case 'random':
        return this.#select(scope, at(randomInt(random, count)), count, 'random')
      case 'power-of-two':
        return this.#select(scope, at(pickOfTwo(requests, count, random)), count, 'better of two')
      case 'least-loaded': {
        for (let i = 0; i < count; i++) this.#costs[i] = requests(i)
        const i = pickAtTemperature(0)(this.#costs, count, random)
        return this.#select(scope, at(i), count, 'fewest requests')
      }
      default:
        return this.#pickByCost(scope, count)
    }
  }

  #pickByCost(scope: Scope, count: number): Selection {
    const { config, random } = this.#parts
    const priced = this.#price(scope, count)
    const { temperature } = priced.cost.weights
    const picker = config.picker ?? pickAtTemperature(temperature)
    const i = picker(this.#costs, count, random)
    const reason =
      config.picker !== null
        ? 'custom picker'
        : temperature > 0
          ? 'drawn at temperature'
          : 'lowest cost'
    return this.#select(priced, this.#candidates[i] as number, count, reason)
  }

  /** Fills the cost column. */
  #price(scope: Scope, count: number): Scope {
    const { config, table } = this.#parts
    let cost = scope.cost
    if (cost.weights.overlapScoreCreditDecay > 0 && cost.trackPrefill) {
      let least = Infinity
      for (let i = 0; i < count; i++) {
        const tokens = table.activePrefillTokens[this.#candidates[i] as number] as number
        if (tokens < least) least = tokens
      }
      cost = { ...cost, minActivePrefillTokens: least }
    }
    const { request } = scope.query
    const preferred = request.routing.preferredTaints
    const hasTaints = preferred !== undefined && Object.keys(preferred).length > 0
    const plain = !hasTaints && config.scorers.length === 0
    const view = this.#view
    for (let i = 0; i < count; i++) {
      const slot = this.#candidates[i] as number
      this.#look(scope, slot)
      let value = costOf(cost, view)
      if (!plain) {
        if (hasTaints) value *= taintFactor(preferred, table.row(slot).taints)
        value += this.#extra(scope, slot)
      }
      this.#costs[i] = value
    }
    return cost === scope.cost ? scope : { ...scope, cost }
  }

  /** Sets the reused view to one rank. */
  #look(scope: Scope, slot: number): void {
    const { table } = this.#parts
    const view = this.#view
    const { matches } = this.#parts.index
    const device = matches.device[slot] as number
    const host = matches.host[slot] as number
    const disk = matches.disk[slot] as number
    view.deviceBlocks = device
    view.hostBlocks = host
    view.diskBlocks = disk
    const { weights, blockSize } = scope.cost
    const effective = effectiveOverlapBlocks(weights, device, host, disk)
    view.cachedTokens = effective === 0 ? 0 : cachedTokensOf(effective, blockSize)
    view.activePrefillTokens = table.activePrefillTokens[slot] as number
    view.activeDecodeBlocks = Math.round(table.activeDecodeBlocks[slot] as number)
    view.activeRequests = table.activeRequests[slot] as number
    view.additionalBlocks = Math.max(scope.trackedBlocks - (this.#depths[slot] as number), 0)
  }

  #extra(scope: Scope, slot: number): number {
    const { scorers } = this.#parts.config
    if (scorers.length === 0) return 0
    const candidate = this.#candidate(scope, slot)
    let sum = 0
    for (const scorer of scorers) sum += scorer.score(candidate, scope.query.request)
    return sum
  }

  #candidate(scope: Scope, slot: number): Candidate {
    const { table } = this.#parts
    const { card, dpRank } = table.row(slot)
    return {
      card,
      dpRank,
      activePrefillTokens: table.activePrefillTokens[slot] as number,
      activeDecodeBlocks: table.activeDecodeBlocks[slot] as number,
      activeRequests: table.activeRequests[slot] as number,
      overlapBlocks: this.#parts.index.matches.device[slot] as number,
      promptBlocks: scope.promptBlocks,
    }
  }

  #select(scope: Scope, slot: number, eligible: number, reason: ChoiceReason): Selection {
    const { table } = this.#parts
    const { query, cost } = scope
    const { card, dpRank } = table.row(slot)
    const byCost =
      reason === 'lowest cost' || reason === 'drawn at temperature' || reason === 'custom picker'
    const candidates = byCost
      ? recordCandidates({
          count: eligible,
          limit: this.#parts.config.explainCandidates,
          costs: this.#costs,
          slots: this.#candidates,
          table,
          cost,
          preferredTaints: query.request.routing.preferredTaints,
          look: (at) => {
            this.#look(scope, at)
            return this.#view
          },
          extra: (at) => this.#extra(scope, at),
        })
      : []
    this.#look(scope, slot)
    const view = this.#view
    const { workerId } = card
    return {
      kind: 'selected',
      slot,
      workerId,
      dpRank,
      card,
      phase: query.phase,
      overlapBlocks: view.deviceBlocks,
      cachedTokens: view.cachedTokens,
      promptTokens: cost.promptTokens,
      promptBlocks: scope.promptBlocks,
      effectivePrefillTokens: Math.max(cost.promptTokens - view.cachedTokens, 0),
      potentialDecodeBlocks:
        view.activeDecodeBlocks + Math.max(scope.promptBlocks - (this.#depths[slot] as number), 0),
      cost: costOf(cost, view),
      hashes: scope.hashes,
      trackPrefill: cost.trackPrefill,
      assumeKvReuse: scope.assumeKvReuse,
      expectedOutputTokens: query.request.routing.expectedOutputTokens ?? null,
      record: this.#record(scope, eligible, candidates, {
        kind: 'routed',
        workerId,
        dpRank,
        overlapBlocks: view.deviceBlocks,
        cachedTokens: view.cachedTokens,
        reason,
      }),
    }
  }

  #refuse(scope: Scope, error: BatonError, eligible: number): Refusal {
    const { code, message } = error
    return {
      kind: 'refused',
      error,
      overloaded: scope.overloadedCount > 0,
      record: this.#record(scope, eligible, [], { kind: 'refused', code, message }),
    }
  }

  #record(
    scope: Scope,
    eligible: number,
    candidates: DecisionRecord['candidates'],
    outcome: DecisionRecord['outcome'],
  ): DecisionRecord {
    const { config, clock, table } = this.#parts
    return {
      requestId: scope.query.request.requestId,
      phase: scope.query.phase,
      atMs: scope.nowMs,
      atEpochMs: clock.epochMs(),
      mode: config.mode,
      promptTokens: scope.cost.promptTokens,
      promptBlocks: scope.promptBlocks,
      queuedMs: scope.query.queuedMs,
      ranksSeen: table.live.length,
      ranksEligible: eligible,
      candidates,
      excluded: scope.excluded,
      outcome,
      ...(scope.query.note === undefined ? {} : { disaggregation: scope.query.note }),
    }
  }

  #summary(scope: Scope): string {
    const counts = new Map<string, number>()
    for (const { reason } of scope.excluded) counts.set(reason, (counts.get(reason) ?? 0) + 1)
    return [...counts].map(([reason, count]) => `${count} ${reason}`).join(', ')
  }

  #fit(): void {
    const { capacity } = this.#parts.table
    if (this.#depths.length >= capacity) return
    this.#parts.index.reserve(capacity)
    this.#depths = new Int32Array(capacity)
    this.#candidates = new Int32Array(capacity)
    this.#costs = new Float64Array(capacity)
  }
}

function hardTarget({ affinity }: SelectionQuery): Pin | null {
  return affinity === null || affinity === undefined || affinity.soft ? null : affinity.target
}

/** A binding to the same worker may know the rank that the request does not name. */
function withKnownRank(pin: Pin, { affinity }: SelectionQuery): Pin {
  const target = affinity?.target
  return pin.dpRank === null && target?.workerId === pin.workerId ? target : pin
}
