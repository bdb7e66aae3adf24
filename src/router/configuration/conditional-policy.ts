/**
 * Conditional disaggregation: decides whether a prompt goes to a prefill worker or is computed on the decode worker
 * (bypass). Pure: takes facts about both pools, returns a verdict with its reason.
 *
 * `isl_bounding`, `prefill_load` and `isl_or_load` are policies of Dynamo. `predicted_cost` is Baton's own: it
 * compares the number of tokens that are computed before the first output token on either path. If times are
 * predicted for both paths (`cost: time`), the shorter time decides instead of the policy.
 */
import { unreachable } from '../../base/index.ts'

export const CONDITIONAL_POLICIES = [
  'isl_bounding',
  'prefill_load',
  'isl_or_load',
  'predicted_cost',
] as const
export type ConditionalPolicy = (typeof CONDITIONAL_POLICIES)[number]

export interface ConditionalConfig {
  readonly enabled: boolean
  readonly policy: ConditionalPolicy
  /** Bypass only if fewer prompt tokens than this are uncached on the decode worker … */
  readonly effectiveIslThreshold: number
  /** … and they are less than this share (0 to 1) of the prompt. */
  readonly effectiveIslRatioThreshold: number
  /**
   * The prefill worker is busy above this share of its batch (`maxBatchedTokens`). Null: use `queueThreshold`; if
   * that is null too, the worker is never busy.
   */
  readonly prefillBusyThreshold: number | null
  /** No bypass above this share of the decode worker's KV blocks. Null: no such limit. */
  readonly decodeBusyThreshold: number | null
  /** Cost of transferring the KV of one token, in prefill tokens (used by `predicted_cost`). */
  readonly transferTokensPerToken: number
  /** Fixed cost of running a separate prefill leg, in prefill tokens (used by `predicted_cost`). */
  readonly transferTokensFixed: number
  /**
   * Slowdown of a local prefill per running decode request, as a share of the prompt's tokens (used by
   * `predicted_cost`).
   */
  readonly interference: number
}
export type ConditionalOptions = Partial<ConditionalConfig>

export interface ConditionalFacts {
  readonly promptTokens: number
  /** Prompt tokens that the best decode worker would have to compute. */
  readonly decodeEffectiveTokens: number
  readonly decodeActivePrefillTokens: number
  readonly decodeActiveRequests: number
  /** KV blocks in use on the decode worker once this request runs there. */
  readonly decodeProjectedBlocks: number
  readonly decodeTotalBlocks: number | null
  /** The best prefill worker; null if no prefill worker could be evaluated. */
  readonly prefill: {
    readonly effectiveTokens: number
    readonly activePrefillTokens: number
    readonly maxBatchedTokens: number
    readonly queueRejected: boolean
  } | null
}

/** A predicted time by its parts, in milliseconds; the total is their sum. */
type TimeParts = Readonly<Record<string, number>>

/**
 * Predicted time to the first token plus the delay caused to other requests, for both paths: `here` computes the
 * prompt on the decode worker, `apart` on a prefill worker.
 */
export interface PredictedTimes {
  readonly here: TimeParts
  readonly apart: TimeParts
}

export interface ConditionalVerdict {
  readonly bypass: boolean
  readonly reason: string
}

const DEFAULTS: ConditionalConfig = {
  enabled: false,
  policy: 'isl_bounding',
  effectiveIslThreshold: 2048,
  effectiveIslRatioThreshold: 0.7,
  prefillBusyThreshold: null,
  decodeBusyThreshold: null,
  transferTokensPerToken: 0.1,
  transferTokensFixed: 256,
  interference: 0.02,
}

/**
 * Fills in the defaults. `prefillBusyThreshold` defaults to the queue threshold: a prefill worker is busy when
 * requests would have to queue for it.
 */
export function completeConditionalConfig(
  options: ConditionalOptions,
  queueThreshold: number | null = null,
): ConditionalConfig {
  const config = { ...DEFAULTS, ...options }
  const prefillBusyThreshold = config.prefillBusyThreshold ?? queueThreshold
  return Object.freeze({ ...config, prefillBusyThreshold })
}

/** The verdict. `times` are the predicted times of both paths; when they are known they replace the policy. */
export function judgeBypass(
  config: ConditionalConfig,
  facts: ConditionalFacts,
  times: PredictedTimes | null = null,
): ConditionalVerdict {
  const verdict = times === null ? judgePolicy(config, facts) : judgeTimes(times)
  if (!verdict.bypass) return verdict
  const guard = config.decodeBusyThreshold
  if (guard === null) return verdict
  const total = facts.decodeTotalBlocks
  if (total === null || total <= 0) return no('decode load is not known')
  if (facts.decodeProjectedBlocks > guard * total) {
    return no(`decode worker is busy: ${facts.decodeProjectedBlocks} of ${total} blocks`)
  }
  return verdict
}

function judgePolicy(config: ConditionalConfig, facts: ConditionalFacts): ConditionalVerdict {
  switch (config.policy) {
    case 'isl_bounding':
      return judgeLength(config, facts)
    case 'prefill_load':
      return judgePrefillLoad(config, facts)
    case 'isl_or_load': {
      const length = judgeLength(config, facts)
      return length.bypass ? length : judgePrefillLoad(config, facts)
    }
    case 'predicted_cost':
      return judgePredictedCost(config, facts)
    default:
      return unreachable(config.policy)
  }
}

function judgeLength(config: ConditionalConfig, facts: ConditionalFacts): ConditionalVerdict {
  const tokens = facts.decodeEffectiveTokens
  const ratio = tokens / Math.max(facts.promptTokens, 1)
  const short = tokens < config.effectiveIslThreshold && ratio < config.effectiveIslRatioThreshold
  const numbers = `${tokens} of ${facts.promptTokens} prompt tokens are uncached`
  return short ? yes(`short: ${numbers}`) : no(`long: ${numbers}`)
}

function judgePrefillLoad(config: ConditionalConfig, facts: ConditionalFacts): ConditionalVerdict {
  const { prefill } = facts
  if (prefill === null) return no('prefill load is not known')
  if (prefill.queueRejected) return yes('the prefill queue is full')
  const threshold = config.prefillBusyThreshold
  if (threshold === null) return no('no prefill threshold is set')
  const busy = prefill.activePrefillTokens > threshold * prefill.maxBatchedTokens
  const numbers = `${prefill.activePrefillTokens} prefill tokens in flight`
  return busy ? yes(`prefill is busy: ${numbers}`) : no(`prefill has capacity: ${numbers}`)
}

function judgePredictedCost(
  config: ConditionalConfig,
  facts: ConditionalFacts,
): ConditionalVerdict {
  const { prefill } = facts
  if (prefill === null) return no('prefill load is not known')
  if (prefill.queueRejected) return yes('the prefill queue is full')
  const slowdown = 1 + config.interference * facts.decodeActiveRequests
  const here = facts.decodeActivePrefillTokens + facts.decodeEffectiveTokens * slowdown
  const transfer = config.transferTokensFixed + config.transferTokensPerToken * facts.promptTokens
  const there = prefill.activePrefillTokens + prefill.effectiveTokens + transfer
  const numbers = `${Math.round(here)} tokens here, ${Math.round(there)} with a prefill worker`
  return here < there ? yes(`cheaper: ${numbers}`) : no(`more expensive: ${numbers}`)
}

/** On equal times the prefill worker is chosen, because then running decode requests are not slowed down. */
function judgeTimes({ here, apart }: PredictedTimes): ConditionalVerdict {
  const numbers = `${inWords(here)} here, ${inWords(apart)} with a prefill worker`
  return sumOf(here) < sumOf(apart) ? yes(`sooner: ${numbers}`) : no(`later: ${numbers}`)
}

function inWords(parts: TimeParts): string {
  const words = Object.entries(parts).map(([name, ms]) => `${name} ${Math.round(ms)}`)
  return `${Math.round(sumOf(parts))} ms (${words.join(', ')})`
}

function sumOf(parts: TimeParts): number {
  return Object.values(parts).reduce((sum, ms) => sum + ms, 0)
}

const yes = (reason: string): ConditionalVerdict => ({ bypass: true, reason })
const no = (reason: string): ConditionalVerdict => ({ bypass: false, reason })
