/**
 * The cost of placing a request on one rank: a fold over the router's cost terms; the lowest cost wins.
 *
 * Owns the fold (credits first, then sums and factors), the weights of the current decision, and the check of values
 * returned by user-defined terms. What a term reads is in `Candidate`; the built-in terms are in `block-terms.ts` and
 * `time-terms.ts`.
 */
import { BatonError, safeText } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { BLOCK_TERMS } from './block-terms.ts'
import { TIME_TERMS } from './time-terms.ts'
import type { Candidate } from './candidate.ts'
import type { BuiltInTerm, CostTerm, DecisionKind, TermRole } from './cost-term.ts'
import { isPromise } from './returned-promise.ts'
import type { CostWeights } from './weights.ts'

/** A term as shown in a decision record, without its value. */
export interface WeighedTerm {
  readonly name: string
  readonly unit: string
  readonly role: TermRole
  readonly weight: number
}

/** Raw value of each term by name: the result of `of`, before the weight is applied. */
export type TermValues = Readonly<Record<string, number>>

type Of = (candidate: Candidate, request: GenerateRequest) => number

/** One class for all terms, so that the loop over a thousand ranks stays monomorphic for V8. */
class Part {
  readonly name: string
  readonly unit: string
  readonly role: TermRole
  readonly isFactor: boolean
  readonly of: Of
  readonly option: string | null
  readonly isLowered: (decision: DecisionKind) => boolean
  readonly applies: (decision: DecisionKind) => boolean
  // State of the current decision:
  weight: number
  lowered = false
  /** True if the term cannot change a cost in this decision; it is then not evaluated. */
  isIdle = false

  constructor(term: BuiltInTerm) {
    this.name = term.name
    this.unit = term.unit
    this.role = term.role
    this.isFactor = term.role === 'factor'
    this.of = term.of
    this.weight = typeof term.weight === 'number' ? term.weight : term.weight.default
    this.option = typeof term.weight === 'number' ? null : term.weight.option
    this.isLowered = term.isLowered ?? (() => false)
    this.applies = term.applies ?? (() => true)
  }
}

/** The terms to evaluate, one field for each call site of `fill`. */
interface Order {
  readonly c0: Part
  readonly c1: Part
  readonly c2: Part
  readonly c3: Part
  readonly s0: Part
  readonly s1: Part
  readonly s2: Part
  readonly s3: Part
  readonly moreCredits: readonly Part[]
  readonly moreSums: readonly Part[]
  readonly hasMore: boolean
  readonly sums: readonly Part[]
}

/** The unit in which a router computes costs. */
export const COST_MODELS = ['blocks', 'time'] as const
export type CostModel = (typeof COST_MODELS)[number]
export const TERMS_OF = { blocks: BLOCK_TERMS, time: TIME_TERMS } as const

/** A candidate view that can be moved from rank to rank. */
interface MovableCandidate extends Candidate {
  moveTo(slot: number): void
}

export class CostFunction {
  /** In column order: credits first, then additions and factors. */
  readonly #parts: readonly Part[]
  #order: Order
  /** Bit set of the terms that applied in the last decision. */
  #flags = -1
  #weights: CostWeights | null = null
  #weighed: readonly WeighedTerm[] | null = null

  /** `own`: user-defined terms, appended after the built-in ones. */
  constructor(own: readonly CostTerm[], model: CostModel = 'blocks') {
    const builtIn: readonly BuiltInTerm[] = TERMS_OF[model]
    const parts = [...builtIn.map((term) => new Part(term)), ...own.map(ownPart)]
    const credits = parts.filter(({ role }) => role === 'credit')
    const sums = parts.filter(({ role }) => role !== 'credit')
    this.#parts = [...credits, ...sums]
    this.#order = arrange(this.#parts)
  }

  /** Sets the weights and applicable terms of a decision; call it before `fill`. */
  begin(weights: CostWeights, decision: DecisionKind): void {
    const flags =
      Number(decision.hasPreferredTaints) +
      2 * Number(decision.hasLowerTiers) +
      4 * Number(decision.hasShared) +
      8 * Number(decision.hasGoals) +
      16 * Number(decision.hasTransfer) +
      32 * Number(decision.hasLater) +
      64 * Number(decision.hasUntried)
    if (weights !== this.#weights || flags !== this.#flags) {
      this.#weights = weights
      this.#flags = flags
      this.#weighed = null
      for (const part of this.#parts) {
        if (part.option !== null) part.weight = weightNamed(weights, part.option)
        part.isIdle = !part.applies(decision) || (part.weight === 0 && !part.isFactor)
      }
      this.#order = arrange(this.#parts)
    }
    for (const part of this.#order.sums) part.lowered = part.isLowered(decision)
  }

  /**
   * Writes the costs of the first `count` slots into `costs`.
   *
   * Each of the first terms has its own call site: V8 inlines a function if a call site only ever sees that one. A
   * loop over the terms would make a decision among a thousand ranks twice as slow (bench/decision.ts).
   */
  fill(
    view: MovableCandidate,
    slots: Int32Array,
    count: number,
    request: GenerateRequest,
    costs: Float64Array,
  ): void {
    const { c0, c1, c2, c3, s0, s1, s2, s3, hasMore } = this.#order
    const { of: creditOf0, weight: weight0 } = c0
    const { of: creditOf1, weight: weight1 } = c1
    const { of: creditOf2, weight: weight2 } = c2
    const { of: creditOf3, weight: weight3 } = c3
    const { of: valueOf0 } = s0
    const { of: valueOf1 } = s1
    const { of: valueOf2 } = s2
    const { of: valueOf3 } = s3
    for (let i = 0; i < count; i++) {
      view.moveTo(slots[i] as number)
      let credit =
        weight0 * creditOf0(view, request) +
        weight1 * creditOf1(view, request) +
        weight2 * creditOf2(view, request) +
        weight3 * creditOf3(view, request)
      if (hasMore) credit += this.#moreCredit(view, request)
      let cost = step(s0, 0, valueOf0(view, request), credit)
      cost = step(s1, cost, valueOf1(view, request), credit)
      cost = step(s2, cost, valueOf2(view, request), credit)
      cost = step(s3, cost, valueOf3(view, request), credit)
      costs[i] = hasMore ? this.#moreCost(view, request, cost, credit) : cost
    }
  }

  #moreCredit(view: Candidate, request: GenerateRequest): number {
    let credit = 0
    for (const part of this.#order.moreCredits) credit += part.weight * part.of(view, request)
    return credit
  }

  #moreCost(view: Candidate, request: GenerateRequest, cost: number, credit: number): number {
    let sum = cost
    for (const part of this.#order.moreSums) sum = step(part, sum, part.of(view, request), credit)
    return sum
  }

  /** The terms of the current decision, in column order. */
  get terms(): readonly WeighedTerm[] {
    this.#weighed ??= this.#parts.map(({ name, unit, role, weight }) => ({
      name,
      unit,
      role,
      weight,
    }))
    return this.#weighed
  }

  /** Value of each term before its weight, in column order. */
  valuesOf(candidate: Candidate, request: GenerateRequest): readonly number[] {
    const values: number[] = []
    for (const part of this.#parts) values.push(part.of(candidate, request))
    return values
  }
}

/** Fills the call sites of a router with fewer terms than call sites. */
const NOTHING = new Part({
  name: '',
  unit: '',
  role: 'add',
  weight: 1,
  help: '',
  of: () => 0,
})

function step(part: Part, cost: number, value: number, credit: number): number {
  if (part.isFactor) return cost * value
  return cost + part.weight * (part.lowered ? Math.max(value - credit, 0) : value)
}

function arrange(parts: readonly Part[]): Order {
  const asked = parts.filter(({ isIdle }) => !isIdle)
  const credits = asked.filter(({ role }) => role === 'credit')
  const sums = asked.filter(({ role }) => role !== 'credit')
  const [c0 = NOTHING, c1 = NOTHING, c2 = NOTHING, c3 = NOTHING, ...moreCredits] = credits
  const [s0 = NOTHING, s1 = NOTHING, s2 = NOTHING, s3 = NOTHING, ...moreSums] = sums
  const hasMore = moreCredits.length + moreSums.length > 0
  return { c0, c1, c2, c3, s0, s1, s2, s3, moreCredits, moreSums, hasMore, sums }
}

/** Wraps a user-defined term so that exceptions and return values are checked. */
function ownPart(term: CostTerm): Part {
  const { name, unit = 'blocks', role = 'add', weight = 1 } = term
  const of: Of = (candidate, request) => checked(term, candidate, request)
  return new Part({ name, unit, role, weight, help: '', of })
}

function weightNamed(weights: CostWeights, option: string): number {
  return (weights as unknown as Readonly<Record<string, number>>)[option] ?? 1
}

/**
 * A user-defined term that throws or returns a non-number fails the request with the term's name; it never silently
 * changes a decision.
 */
function checked(term: CostTerm, candidate: Candidate, request: GenerateRequest): number {
  let value: unknown
  try {
    value = term.of(candidate, request)
  } catch (error) {
    throw failed(term.name, candidate, `threw: ${safeText(error)}`, error)
  }
  if (typeof value === 'number' && !Number.isNaN(value)) return value
  throw failed(term.name, candidate, `returned ${describe(value)}, expected a number`)
}

function describe(value: unknown): string {
  return isPromise(value) ? 'a promise' : safeText(value)
}

function failed(name: string, { card }: Candidate, what: string, cause?: unknown): BatonError {
  return new BatonError(
    'runtime.internal',
    `scorer '${name}' ${what} (for worker ${card.workerId})`,
    { data: { scorer: name, workerId: card.workerId }, cause },
  )
}
