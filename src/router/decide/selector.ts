/**
 * The decision: eligibility, then cost, then pick. Nothing is booked here; only the round-robin cursor changes.
 *
 * Owns the order of the rules (pin, session, mode) and the scratch arrays of a decision.
 */
import { BatonError, randomInt } from '../../base/index.ts'
import type { Candidate } from '../cost/candidate.ts'
import { CheapestRanks } from './cheapest-ranks.ts'
import { CandidateFilter } from './candidate-filter.ts'
import {
  exactRefusal,
  NOT_PRICED,
  recordCandidates,
  recordDecision,
  refusalError,
} from './decision-notes.ts'
import type { ChoiceReason } from './decision-record.ts'
import { openScope } from './decision-scope.ts'
import { lateMs } from './goals-left.ts'
import { lateError } from './late-error.ts'
import type { LateCandidate } from './late-error.ts'
import type { DecisionScope, PoolParts } from './decision-scope.ts'
import { isUnconstrained } from './eligibility.ts'
import { pickAtTemperature, pickLowest, pickOfTwo, pickWith } from './pick.ts'
import { missingPin, pinnedSlot, pinOf } from './pin.ts'
import type { Pin } from './pin.ts'
import { RankPricing } from './rank-pricing.ts'
import type { Refusal, Selection, SelectionQuery } from './selection.ts'

export class Selector {
  readonly #pool: PoolParts
  readonly #pricing: RankPricing
  readonly #filter: CandidateFilter
  #candidates = new Int32Array(0)
  #costs = new Float64Array(0)
  readonly #best = new CheapestRanks()
  #cursor = 0

  constructor(pool: PoolParts) {
    this.#pool = pool
    this.#pricing = new RankPricing(pool)
    this.#filter = new CandidateFilter(pool, this.#pricing)
  }

  /** Chooses a rank. With `peek` the round-robin cursor is not advanced. */
  select(query: SelectionQuery, peek = false): Selection | Refusal {
    const scope = this.#open(query)
    const { config, table } = this.#pool
    const { request, phase, affinity } = query
    const pin = pinOf(request.routing, phase)
    if (pin !== null) {
      const bypasses = request.routing.bypassesPrefill === true
      const reason = bypasses ? 'prefill bypassed' : 'pinned by the request'
      return this.#takeExactly(scope, withKnownRank(pin, query), reason)
    }
    if (affinity !== null && affinity !== undefined) {
      if (!affinity.soft) return this.#takeExactly(scope, affinity.target, 'bound session')
      const slot = pinnedSlot(table, affinity.target, phase)
      const isThere = !(slot instanceof BatonError)
      if (isThere && this.#filter.exclusionOf(scope, slot) === null) {
        return this.#choose(scope, slot, 1, 'preferred session')
      }
    }
    if (config.mode === 'direct') return this.#refuse(scope, missingPin(phase))
    const count = this.#filter.gather(scope, this.#candidates)
    if (count === 0) return this.#refuse(scope, refusalError(this.#pool, scope))
    try {
      return this.#pick(scope, count, peek)
    } catch (thrown) {
      // A user-defined scorer or picker failed. Any other exception is an internal error and ends the
      // process.
      if (thrown instanceof BatonError) return this.#refuse(scope, thrown)
      throw thrown
    }
  }

  /** Slots that could take the request now; used by the queue. */
  eligible(query: SelectionQuery): readonly number[] {
    const { table, config } = this.#pool
    const scope = this.#open(query, config.filters.length > 0)
    const isFree = (slot: number): boolean => this.#filter.exclusionOf(scope, slot) === null
    const pin = pinOf(query.request.routing, query.phase) ?? hardTarget(query)
    if (pin !== null) {
      const slot = pinnedSlot(table, pin, query.phase)
      return slot instanceof BatonError || !isFree(slot) ? [] : [slot]
    }
    const free = table.live.filter(isFree)
    if (free.length > 0) return free
    // As in the decision itself: without any other, those under suspicion are used.
    scope.constraints = { ...scope.constraints, ignoresFences: true }
    const isOverloaded = (slot: number): boolean =>
      this.#filter.exclusionOf(scope, slot)?.kind === 'overloaded'
    return table.live.some(isOverloaded) ? [] : table.live.filter(isFree)
  }

  /** Slots that the request may ever take, however loaded they are; null: all of them. */
  reachable(query: SelectionQuery): readonly number[] | null {
    const { table, config } = this.#pool
    const pin = pinOf(query.request.routing, query.phase) ?? hardTarget(query)
    if (pin !== null) {
      const slot = pinnedSlot(table, pin, query.phase)
      return slot instanceof BatonError ? [] : [slot]
    }
    const scope = this.#open(query, config.filters.length > 0)
    if (config.filters.length === 0 && isUnconstrained(scope.constraints, table)) return null
    scope.constraints = { ...scope.constraints, ignoresFences: true }
    const slots = table.live.filter((slot) => {
      const exclusion = this.#filter.exclusionOf(scope, slot)
      return exclusion === null || exclusion.kind === 'overloaded'
    })
    return slots.length === table.live.length ? null : slots
  }

  /** Length of the longest cached prefix of the prompt on any rank, in tokens. */
  bestCachedTokens(query: SelectionQuery): number {
    this.#open(query)
    const { matches } = this.#pool.index
    let best = 0
    for (let i = 0; i < matches.count; i++) {
      const { cachedTokens } = this.#pricing.look(matches.holders[i] as number)
      best = Math.max(best, cachedTokens)
    }
    return best
  }

  /** The refusal if no eligible rank would meet the request's goals after waiting `waitMs`; null if some rank may. */
  lateRefusal(query: SelectionQuery, waitMs: number): Refusal | null {
    if (query.request.routing.goals === undefined) return null
    const slots = this.eligible(query)
    const scope = this.#open(query)
    const { rates } = this.#pool
    if (scope.goals === null || slots.length === 0) return null
    const { goals } = scope
    const { ttftShare, itlShare } = {
      ttftShare: 1 + (rates.ttftError ?? 0),
      itlShare: 1 + (rates.itlError ?? 0),
    }
    let best: LateCandidate | null = null
    for (const slot of slots) {
      const view = this.#pricing.look(slot)
      const ttftMs = waitMs + view.predictedTtftMs
      // The time between tokens is used only once it has been measured.
      const itlMs = rates.itlError === null ? 0 : view.predictedItlMs
      const output = view.expectedOutputTokens
      // Predictions are corrected by their known error in the request's favour: it is refused only if that
      // does not help.
      const late = lateMs(goals, ttftMs / ttftShare, itlMs / itlShare, output)
      if (late === 0) return null
      if (best === null || late < best.lateMs) best = { lateMs: late, ttftMs, itlMs }
    }
    return best === null ? null : this.#refuse(scope, lateError(scope, goals, best))
  }

  #open(query: SelectionQuery, withOverlap = true): DecisionScope {
    const { capacity } = this.#pool.table
    if (this.#candidates.length < capacity) {
      this.#pool.index.reserve(capacity)
      this.#pricing.depths = new Int32Array(capacity)
      this.#pricing.again = new Float64Array(capacity)
      this.#candidates = new Int32Array(capacity)
      this.#costs = new Float64Array(capacity)
    }
    const scope = openScope(this.#pool, query, this.#pricing, withOverlap)
    this.#pricing.begin(scope)
    return scope
  }

  #takeExactly(scope: DecisionScope, pin: Pin, reason: ChoiceReason): Selection | Refusal {
    const slot = pinnedSlot(this.#pool.table, pin, scope.query.phase)
    if (slot instanceof BatonError) return this.#refuse(scope, slot)
    const exclusion = this.#filter.exclusionOf(scope, slot)
    if (exclusion === null) return this.#choose(scope, slot, 1, reason)
    this.#filter.note(scope, slot, exclusion)
    return this.#refuse(scope, exactRefusal(this.#pool, scope, pin, exclusion, reason))
  }

  #pick(scope: DecisionScope, count: number, peek: boolean): Selection {
    const { config, random, table } = this.#pool
    const at = (i: number): number => this.#candidates[i] as number
    const requests = (i: number): number => table.requestsOf(at(i))
    switch (config.mode) {
      case 'round-robin': {
        const i = this.#cursor % count
        if (!peek) this.#cursor = (this.#cursor + 1) % 0x40000000
        return this.#choose(scope, at(i), count, 'round robin')
      }
      case 'random':
        return this.#choose(scope, at(randomInt(random, count)), count, 'random')
      case 'power-of-two':
        return this.#choose(scope, at(pickOfTwo(requests, count, random)), count, 'better of two')
      case 'least-loaded':
        return this.#pickIdlest(scope, count)
      default:
        return this.#pickByCost(scope, count)
    }
  }

  #pickIdlest(scope: DecisionScope, count: number): Selection {
    const { random, table } = this.#pool
    for (let i = 0; i < count; i++) {
      this.#costs[i] = table.requestsOf(this.#candidates[i] as number)
    }
    const i = pickLowest(this.#costs, count, random)
    return this.#choose(scope, this.#candidates[i] as number, count, 'fewest requests')
  }

  #pickByCost(scope: DecisionScope, count: number): Selection {
    const { config, table } = this.#pool
    const pricing = this.#pricing
    const { temperature } = scope.weights
    const isOwn = config.picker !== null
    const best = this.#best
    best.begin(config.explainCandidates)
    const needsAll = isOwn || temperature > 0
    pricing.price(scope, this.#candidates, count, this.#costs, best, needsAll)
    const i = this.#indexOf(temperature, count)
    const candidates = recordCandidates(scope, {
      best,
      limit: config.explainCandidates,
      costs: this.#costs,
      slots: this.#candidates,
      table,
      pricing,
    })
    const reason = isOwn ? 'custom picker' : this.#costReason(temperature)
    return this.#choose(scope, this.#candidates[i] as number, count, reason, candidates)
  }

  #costReason(temperature: number): ChoiceReason {
    if (temperature > 0) return 'drawn at temperature'
    return this.#pricing.arePredictionsOff
      ? 'lowest cost in blocks, predictions are off'
      : 'lowest cost'
  }

  #indexOf(temperature: number, count: number): number {
    const { config, random } = this.#pool
    if (config.picker !== null) return pickWith(config.picker, this.#costs, count, random)
    if (temperature <= 0 && this.#best.hasLowest) return this.#best.indexAt(0)
    return pickAtTemperature(temperature)(this.#costs, count, random)
  }

  #choose(
    scope: DecisionScope,
    slot: number,
    eligible: number,
    reason: ChoiceReason,
    candidates = NOT_PRICED,
  ): Selection {
    const { query, promptTokens, promptBlocks } = scope
    const { card, dpRank } = this.#pool.table.row(slot)
    const view = this.#pricing.look(slot)
    const { workerId } = card
    const { deviceBlocks, hostBlocks, diskBlocks, cachedTokens } = view
    const overlapBlocks = deviceBlocks + hostBlocks + diskBlocks
    const uncached = Math.max(promptTokens - cachedTokens, 0)
    const predictedTtftMs = this.#predictTtft(scope, view)
    const firstTokenMs = predictedTtftMs ?? decodeLegMs(scope, view)
    const newBlocks = Math.max(promptBlocks - (this.#pricing.depths[slot] as number), 0)
    return {
      kind: 'selected',
      slot,
      workerId,
      dpRank,
      card,
      phase: query.phase,
      overlapBlocks,
      cachedTokens,
      promptTokens,
      promptBlocks,
      effectivePrefillTokens: uncached,
      potentialDecodeBlocks: view.activeDecodeBlocks + newBlocks,
      cost: this.#pricing.costAt(scope, slot),
      hashes: scope.hashes,
      turn: scope.turn,
      next: query.next,
      trackPrefill: scope.trackPrefill,
      assumeKvReuse: scope.assumeKvReuse,
      isEstimated: query.request.routing.isEstimated ?? false,
      isForwarded: query.request.forward !== undefined,
      isEmbedding: query.request.kind === 'embed',
      isWhole: query.request.forward?.isStream === false,
      expectedOutputTokens: query.request.routing.expectedOutputTokens ?? null,
      predictedTtftMs,
      record: recordDecision(this.#pool, scope, eligible, candidates, {
        kind: 'routed',
        workerId,
        dpRank,
        overlapBlocks,
        cachedTokens: overlapBlocks * scope.blockSize,
        reason,
        ...(firstTokenMs === null ? {} : { predictedTtftMs: firstTokenMs }),
      }),
    }
  }

  #predictTtft(scope: DecisionScope, view: Candidate): number | null {
    if (!scope.trackPrefill || !this.#pool.rates.predicts) return null
    return view.predictedTtftMs
  }

  #refuse(scope: DecisionScope, error: BatonError): Refusal {
    const { code, message } = error
    const outcome = { kind: 'refused', code, message } as const
    const record = recordDecision(this.#pool, scope, 0, NOT_PRICED, outcome)
    return { kind: 'refused', error, overloaded: scope.overloadedCount > 0, record }
  }
}

/** For the record: the first token of a decode leg comes when its KV has arrived, with the next step. */
function decodeLegMs({ transfer, query }: DecisionScope, view: Candidate): number | null {
  if (query.phase !== 'decode' || transfer === null || view.predictedItlMs === 0) return null
  return view.placeMs + view.transferMs + view.restMs + view.predictedItlMs
}

function hardTarget({ affinity }: SelectionQuery): Pin | null {
  return affinity === null || affinity === undefined || affinity.soft ? null : affinity.target
}

/** If the pin names no rank and the session is bound to the same worker, the session's rank is used. */
function withKnownRank(pin: Pin, { affinity }: SelectionQuery): Pin {
  const target = affinity?.target
  return pin.dpRank === null && target?.workerId === pin.workerId ? target : pin
}
