/**
 * Every router option that a file can set, once: its path, what it may be, and what it means.
 *
 * The file's parser, the check of a configuration, `baton config` and docs/configuration.md come from here.
 */
import { GOAL_MAX_MS, isGoalMs } from '../../request/index.ts'
import { CONDITIONAL_POLICIES } from './conditional-policy.ts'
import { COST_MODELS } from '../cost/cost-function.ts'
import { WEIGHT_OPTIONS } from '../cost/weights.ts'
import { QUEUE_POLICIES } from './policy-class.ts'

export const ROUTER_MODES = [
  'kv',
  'round-robin',
  'random',
  'least-loaded',
  'power-of-two',
  'direct',
] as const

type OptionCheck =
  /** A number of at least 0; above 0; between 0 and 1. */
  | 'amount'
  | 'positive'
  | 'share'
  /** Milliseconds of a latency goal. */
  | 'goal'
  /** A whole number above 0; of at least 0. */
  | 'count'
  | 'whole'
  | 'switch'
  | 'text'
  | readonly string[]

export interface RouterOptionRow {
  /** A dot leads into a group, `[]` into each member of a list. */
  readonly path: string
  readonly check: OptionCheck
  readonly help: string
  readonly isNullable: boolean
}

const row = (path: string, check: OptionCheck, help: string): RouterOptionRow => ({
  path,
  check,
  help,
  isNullable: false,
})
const orNull = (path: string, check: OptionCheck, help: string): RouterOptionRow => ({
  ...row(path, check, help),
  isNullable: true,
})

export const ROUTER_OPTION_TABLE: readonly RouterOptionRow[] = [
  row('mode', ROUTER_MODES, 'how a worker is chosen'),
  row(
    'cost',
    COST_MODELS,
    'unit of costs in mode kv: blocks with weights, or time by rates that are learned per worker',
  ),
  orNull(
    'blockSize',
    'count',
    'tokens per KV block of workers that do not say their own; null: these are routed to without KV',
  ),
  ...WEIGHT_OPTIONS.map(({ option, help }) => row(option, 'amount', help)),
  row(
    'overlapScoreCreditDecay',
    'amount',
    'how much overlapScoreCredit falls on workers with more prefill',
  ),
  row('temperature', 'amount', '0 takes the cheapest worker, above it spreads'),
  row('useKvEvents', 'switch', 'off: workers are believed to hold what they were sent'),
  row('assumeKvReuse', 'switch', 'blocks that two requests share count once'),
  row('trackActiveBlocks', 'switch', 'active blocks count as load'),
  row('trackOutputBlocks', 'switch', 'blocks of the output, too'),
  row('trackPrefillTokens', 'switch', 'prefill tokens in flight count as load'),
  orNull(
    'prefillTokensPerSecond',
    'positive',
    'prefill load decays at this rate; null: it counts until the end',
  ),
  row(
    'predictedTtlSeconds',
    'amount',
    'how long a routed prompt counts beside KV events; 0: not; 5 by default with cost time',
  ),
  row(
    'approximateTtlSeconds',
    'amount',
    'the same without events, when room is not known; 0: never',
  ),
  row('maxIndexBlocks', 'count', 'bound of what is believed without KV events'),
  row('indexBytes', 'count', 'memory of the index of each pool; the oldest chains are given up'),
  row('enforceDisaggregation', 'switch', 'refuse instead of serving aggregated'),
  row('disaggregation', 'switch', 'off: every request is served by one worker'),
  row('prefillRetries', 'whole', 'other prefill workers that are tried when one fails'),
  orNull(
    'engineQueue',
    'count',
    'requests that may wait inside a worker beside those that it runs, the others wait in the router; null: any number',
  ),
  orNull('queueThreshold', 'amount', 'share of max_num_batched_tokens above which requests wait'),
  row('queuePolicy', QUEUE_POLICIES, 'order of those that wait'),
  row('maxQueuedRequests', 'count', 'bound of the queue, over all classes'),
  row('policyClasses[].name', 'text', 'what a request calls its class'),
  orNull('policyClasses[].family', 'text', 'classes of one family share its name'),
  row('policyClasses[].minUncachedTokens', 'whole', 'least uncached prompt, inside the family'),
  row('policyClasses[].queuePolicy', QUEUE_POLICIES, 'order inside the class'),
  row('policyClasses[].quantum', 'positive', 'uncached tokens that the class may send per round'),
  orNull('policyClasses[].prefillBusyThreshold', 'amount', 'busy above so many prefill tokens'),
  orNull('policyClasses[].prefillBusyShare', 'amount', 'busy above this share of the batch'),
  orNull('policyClasses[].requestLimitPerWorker', 'whole', 'bound, times the workers'),
  orNull('policyClasses[].promptTokenLimitPerWorker', 'whole', 'bound, times the workers'),
  orNull('policyClasses[].cachedTokenLimitPerWorker', 'whole', 'bound, times the workers'),
  orNull(
    'policyClasses[].ttftTargetMs',
    'goal',
    'goal of its requests that set none: until the first token',
  ),
  orNull('policyClasses[].itlTargetMs', 'goal', 'the same for the time between two tokens'),
  row(
    'refuseLateGoals',
    'switch',
    'with cost time: a request whose goals no worker is predicted to meet is refused at once',
  ),
  row('busy.activeDecodeBlocks', 'share', 'share of the KV blocks above which a rank is left out'),
  row('busy.activePrefillTokens', 'amount', 'prefill tokens above which a rank is left out'),
  row('busy.activePrefillTokensShare', 'amount', 'the same as a share of its batch'),
  row('session.ttlSeconds', 'amount', 'idle time of a session; 0: only those that ask for one'),
  row('session.soft', 'switch', 'the worker of a session is preferred, not demanded'),
  row('session.maxSessions', 'count', 'bound; the longest idle goes'),
  row('conditional.enabled', 'switch', 'prefill apart only when it is worth it'),
  row('conditional.policy', CONDITIONAL_POLICIES, 'what decides that'),
  row('conditional.effectiveIslThreshold', 'amount', 'short: fewer uncached tokens'),
  row('conditional.effectiveIslRatioThreshold', 'share', 'and a lesser share of the prompt'),
  orNull(
    'conditional.prefillBusyThreshold',
    'amount',
    'busy above this share of its batch; null: queueThreshold',
  ),
  orNull('conditional.decodeBusyThreshold', 'amount', 'share of the blocks above which no bypass'),
  row('conditional.transferTokensPerToken', 'amount', 'what moving KV costs, in prefill tokens'),
  row('conditional.transferTokensFixed', 'amount', 'what a second leg costs, in prefill tokens'),
  row('conditional.interference', 'amount', 'how much a prefill slows each running decode'),
  row('topology.domain', 'text', "the domain of the workers' cards in which KV may travel"),
  row('topology.enforcement', ['required', 'preferred'], 'decode must, or should, stay in it'),
  row('topology.preferredWeight', 'amount', 'how much it should'),
  row('deadlines.queueMs', 'amount', 'in the queue; 0: without end, as for all of these'),
  row(
    'deadlines.overloadWaitMs',
    'amount',
    'when more requests come than go on: only as many wait as go on in this time, the others are refused at once; 0: all wait',
  ),
  row('deadlines.prefillMs', 'amount', 'of the prefill leg'),
  row('deadlines.firstTokenMs', 'amount', 'from decode to its first token'),
  row('deadlines.streamIdleMs', 'amount', 'between two tokens'),
  row('deadlines.cancelMs', 'amount', 'from an orderly stop to the kill'),
  row('explainRecords', 'count', 'decisions that are kept'),
  row('explainCandidates', 'whole', 'candidates that each of them keeps'),
]

/** What the option may be, in words. */
export function expectedOf({ check, isNullable }: RouterOptionRow): string {
  const expected = typeof check === 'string' ? WORDS[check] : `one of ${check.join(', ')}`
  return isNullable ? `null or ${expected}` : expected
}

/** The same, when the value is not that; else null. */
export function objectionTo(row: RouterOptionRow, value: unknown): string | null {
  const isFine = (value === null && row.isNullable) || passes(row.check, value)
  return isFine ? null : expectedOf(row)
}

function passes(check: OptionCheck, value: unknown): boolean {
  if (typeof check !== 'string') return typeof value === 'string' && check.includes(value)
  if (check === 'switch') return typeof value === 'boolean'
  if (check === 'text') return typeof value === 'string' && value !== ''
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return false
  if (check === 'share') return value <= 1
  if (check === 'positive') return value > 0
  if (check === 'goal') return isGoalMs(value)
  if (check === 'amount') return true
  return Number.isSafeInteger(value) && (check === 'whole' || value > 0)
}

const WORDS = {
  amount: 'a number of at least 0',
  positive: 'a number above 0',
  share: 'a number between 0 and 1',
  goal: `milliseconds above 0 and at most ${GOAL_MAX_MS}`,
  count: 'a whole number above 0',
  whole: 'a whole number of at least 0',
  switch: 'true or false',
  text: 'a text',
} as const
