/** A policy class groups requests that share one queue: its order, its limits and its latency goals. */
import { BatonError } from '../../base/index.ts'

export const QUEUE_POLICIES = ['fcfs', 'wspt', 'lcfs'] as const
export type QueuePolicy = (typeof QUEUE_POLICIES)[number]

export interface PolicyClass {
  readonly name: string
  /**
   * Classes with the same family are chosen by the family's name in the request; which of them is used depends on how
   * many prompt tokens are uncached (`minUncachedTokens`).
   */
  readonly family: string | null
  /** A request belongs to this class of its family if at least this many of its prompt tokens are uncached. */
  readonly minUncachedTokens: number
  readonly queuePolicy: QueuePolicy
  /** Uncached prompt tokens that the class may send per round of deficit round robin. */
  readonly quantum: number
  /** A rank is busy for this class above this many prefill tokens in flight; null: no such limit. */
  readonly prefillBusyThreshold: number | null
  /** A rank is busy for this class above this share of `max_num_batched_tokens`; null: no such limit. */
  readonly prefillBusyShare: number | null
  /** Limits of the queue, each multiplied by the number of workers; null: no limit. */
  readonly requestLimitPerWorker: number | null
  readonly promptTokenLimitPerWorker: number | null
  readonly cachedTokenLimitPerWorker: number | null
  /** Latency goals, in milliseconds, for requests that set none themselves; null: no goal. */
  readonly ttftTargetMs: number | null
  readonly itlTargetMs: number | null
}

export type PolicyClassOptions = Partial<PolicyClass> & { readonly name: string }

const DEFAULT_CLASS = 'default'
const DEFAULT_QUANTUM = 8192

/** Requests of a class without a busy threshold are never queued. */
export function isQueueing(policyClass: PolicyClass): boolean {
  return policyClass.prefillBusyThreshold !== null || policyClass.prefillBusyShare !== null
}

/**
 * The complete list of classes. It always has a class `default`, whose threshold is the router's `queueThreshold`
 * unless it sets its own.
 */
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
 * Finds the class of a request: the class with that name; else, in the family with that name (family `default` if no
 * name is given), the class with the highest `minUncachedTokens` that the prompt reaches; else the class `default`.
 * If `uncachedTokens` is null the prompt is not tokenized yet; the result is then undefined when a family would have
 * to decide.
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
