/**
 * Whether a prompt is worth a prefill worker. Pure: from what is known of both pools to a verdict with its reason.
 *
 * `isl_bounding`, `prefill_load` and `isl_or_load` are the field's policies; `predicted_cost` is Baton's own: it
 * compares the tokens that stand before the first output token on either way. Where both times are predicted, they decide.
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
  /** Bypass below so many uncached prompt tokens … */
  readonly effectiveIslThreshold: number
  /** … that are also less than this share of the prompt. */
  readonly effectiveIslRatioThreshold: number
  /** Share of the prefill worker's batch above which it is busy; null: the queue's threshold, else never. */
  readonly prefillBusyThreshold: number | null
  /** Share of the decode worker's KV blocks above which there is no bypass; null: no guard. */
  readonly decodeBusyThreshold: number | null
  /** What moving one token's KV costs, in prefill tokens (predicted_cost). */
  readonly transferTokensPerToken: number
  /** Fixed cost of a second leg, in prefill tokens (predicted_cost). */
  readonly transferTokensFixed: number
  /** How much a local prefill slows each running decode, as a share of its tokens (predicted_cost). */
  readonly interference: number
}
export type ConditionalOptions = Partial<ConditionalConfig>

export interface ConditionalFacts {
  readonly promptTokens: number
  /** Uncached tokens on the best decode worker. */
  readonly decodeEffectiveTokens: number
  readonly decodeActivePrefillTokens: number
  readonly decodeActiveRequests: number
  /** Blocks after this request; null when the total is not known. */
  readonly decodeProjectedBlocks: number
  readonly decodeTotalBlocks: number | null
  /** Of the best prefill worker; null when there is none to ask. */
  readonly prefill: {
    readonly effectiveTokens: number
    readonly activePrefillTokens: number
    readonly maxBatchedTokens: number
    readonly queueRejected: boolean
  } | null
}

/** Milliseconds by what they pass with; they add up. */
type TimeParts = Readonly<Record<string, number>>

/** Until the first token of a request, and what others lose by it, on either way. */
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

/** A prefill worker is busy where requests would have to wait for it, unless something else is said. */
export function completeConditionalConfig(
  options: ConditionalOptions,
  queueThreshold: number | null = null,
): ConditionalConfig {
  const config = { ...DEFAULTS, ...options }
  const prefillBusyThreshold = config.prefillBusyThreshold ?? queueThreshold
  return Object.freeze({ ...config, prefillBusyThreshold })
}

/** `times`: what is predicted of both ways, where that is known; it decides then instead of the policy. */
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
  if (prefill.queueRejected) return yes('the prefill queue refuses')
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
  if (prefill.queueRejected) return yes('the prefill queue refuses')
  const slowdown = 1 + config.interference * facts.decodeActiveRequests
  const here = facts.decodeActivePrefillTokens + facts.decodeEffectiveTokens * slowdown
  const transfer = config.transferTokensFixed + config.transferTokensPerToken * facts.promptTokens
  const there = prefill.activePrefillTokens + prefill.effectiveTokens + transfer
  const numbers = `${Math.round(here)} tokens here, ${Math.round(there)} with a prefill worker`
  return here < there ? yes(`cheaper: ${numbers}`) : no(`dearer: ${numbers}`)
}

/** A tie goes to the prefill worker: those that decode are not disturbed. */
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
