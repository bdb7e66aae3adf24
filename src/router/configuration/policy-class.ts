/**
 * A policy class: which requests wait together, in which order, and how much the class may hold.
 */
import { BatonError } from '../../base/index.ts'

export const QUEUE_POLICIES = ['fcfs', 'wspt', 'lcfs'] as const
export type QueuePolicy = (typeof QUEUE_POLICIES)[number]

export interface PolicyClass {
  readonly name: string
  /** Classes of one family share its name as a request's class; which of them it is, its uncached length decides. */
  readonly family: string | null
  /** Least uncached prompt tokens of a request of this class, inside its family. */
  readonly minUncachedTokens: number
  readonly queuePolicy: QueuePolicy
  /** Tokens of uncached prompt that the class may send per round (deficit round robin). */
  readonly quantum: number
  /** Busy above so many prefill tokens in flight; null: not looked at. */
  readonly prefillBusyThreshold: number | null
  /** Busy above this share of max_num_batched_tokens; null: not looked at. */
  readonly prefillBusyShare: number | null
  /** Bounds, each times the number of workers; null: none. */
  readonly requestLimitPerWorker: number | null
  readonly promptTokenLimitPerWorker: number | null
  readonly cachedTokenLimitPerWorker: number | null
  /** Goals of its requests that have none of their own; null: none. */
  readonly ttftTargetMs: number | null
  readonly itlTargetMs: number | null
}

export type PolicyClassOptions = Partial<PolicyClass> & { readonly name: string }

export const DEFAULT_CLASS = 'default'
const DEFAULT_QUANTUM = 8192

/** A class never queues without a threshold. */
export function isQueueing(policyClass: PolicyClass): boolean {
  return policyClass.prefillBusyThreshold !== null || policyClass.prefillBusyShare !== null
}

/** Always holds a class `default`; its threshold is the router's `queueThreshold` unless it has its own. */
export function completePolicyClasses(
  options: readonly PolicyClassOptions[],
  fallback: { queuePolicy: QueuePolicy; queueThreshold: number | null },
): readonly PolicyClass[] {
  const given = options.some(({ name }) => name === DEFAULT_CLASS)
    ? options
    : [{ name: DEFAULT_CLASS }, ...options]
  const names = new Set<string>()
  return given.map((option) => {
    const policyClass: PolicyClass = {
      family: null,
      minUncachedTokens: 0,
      queuePolicy: fallback.queuePolicy,
      quantum: DEFAULT_QUANTUM,
      prefillBusyThreshold: null,
      prefillBusyShare: fallback.queueThreshold,
      requestLimitPerWorker: null,
      promptTokenLimitPerWorker: null,
      cachedTokenLimitPerWorker: null,
      ttftTargetMs: null,
      itlTargetMs: null,
      ...option,
    }
    if (names.has(policyClass.name)) throw invalid(policyClass.name, 'is named twice')
    names.add(policyClass.name)
    return Object.freeze(policyClass)
  })
}

/**
 * The class of that name; else, of the family of that name (without a name: the family `default`), the one with the
 * highest floor that the uncached length reaches; else the class `default`. `uncachedTokens` null: the prompt is not known
 * yet, and then neither is a member of a family (undefined).
 */
export function classOf(
  classes: readonly PolicyClass[],
  name: string | undefined,
  uncachedTokens: (() => number) | null,
): PolicyClass | undefined {
  const named = classes.find((one) => one.name === name)
  if (named !== undefined) return named
  const of = (family: string): PolicyClass[] => classes.filter((one) => one.family === family)
  const own = name === undefined ? [] : of(name)
  const family = own.length > 0 ? own : of(DEFAULT_CLASS)
  const fallback = classes.find((one) => one.name === DEFAULT_CLASS)
  if (family.length === 0) return fallback
  if (uncachedTokens === null) return undefined
  const uncached = uncachedTokens()
  const [member] = family
    .filter(({ minUncachedTokens }) => minUncachedTokens <= uncached)
    .toSorted((a, b) => b.minUncachedTokens - a.minUncachedTokens)
  return member ?? fallback
}

function invalid(name: string, what: string): BatonError {
  return new BatonError('config.invalid', `policy class '${name}' ${what}`, {
    data: { option: 'policyClasses', name },
  })
}
