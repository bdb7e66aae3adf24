/**
 * The table of all router options that can be set in a file: path, allowed values and description.
 *
 * The option parser, the validation, `baton config` and docs/configuration.md are derived from this table.
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
  /** Numbers: `amount` at least 0; `positive` above 0; `share` between 0 and 1. */
  | 'amount'
  | 'positive'
  | 'share'
  /** A latency goal in milliseconds. */
  | 'goal'
  /** Integers: `count` above 0; `whole` at least 0. */
  | 'count'
  | 'whole'
  | 'switch'
  | 'text'
  | readonly string[]

export interface RouterOptionRow {
  /** Path of the option: a dot enters a group, `[]` stands for every element of a list. */
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
    'unit of the cost in mode kv: time with rates learned per worker, or blocks with configured weights; blocks by default if weights of blocks or scorers are configured',
  ),
  orNull(
    'blockSize',
    'count',
    'tokens per KV block for workers that do not report it; null: they are routed to without KV awareness',
  ),
  ...WEIGHT_OPTIONS.map(({ option, help }) => row(option, 'amount', help)),
  row(
    'overlapScoreCreditDecay',
    'amount',
    'how fast overlapScoreCredit falls on workers with more prefill in flight',
  ),
  row('temperature', 'amount', '0 takes the cheapest worker, higher values spread requests'),
  row('useKvEvents', 'switch', 'off: workers are assumed to cache what they were sent'),
  row('assumeKvReuse', 'switch', 'blocks shared by two requests count once'),
  row('trackActiveBlocks', 'switch', 'active blocks count as load'),
  row('trackOutputBlocks', 'switch', 'blocks of the output count as load, too'),
  row('trackPrefillTokens', 'switch', 'prefill tokens in flight count as load'),
  orNull(
    'prefillTokensPerSecond',
    'positive',
    'prefill load decays at this rate; null: it counts until the prefill ends',
  ),
  row(
    'predictedTtlSeconds',
    'amount',
    'how long a routed prompt counts as cached before KV events confirm it; 0: never; 5 by default with cost time',
  ),
  row(
    'approximateTtlSeconds',
    'amount',
    'the same without KV events, if the cache size of the worker is not known; 0: never',
  ),
  row('maxIndexBlocks', 'count', 'limit of the estimated index without KV events'),
  row(
    'indexBytes',
    'count',
    'memory of the KV index of each pool; when full, the oldest chains are evicted',
  ),
  row('enforceDisaggregation', 'switch', 'refuse instead of serving aggregated'),
  row('disaggregation', 'switch', 'off: one worker serves the whole request'),
  row('prefillRetries', 'whole', 'how many other prefill workers are tried after a failure'),
  orNull(
    'engineQueue',
    'count',
    'requests that may queue inside a worker beyond those that it runs, the others queue in the router; null: no limit',
  ),
  orNull('queueThreshold', 'amount', 'share of max_num_batched_tokens above which requests wait'),
  row('queuePolicy', QUEUE_POLICIES, 'order of the queue'),
  row('maxQueuedRequests', 'count', 'limit of the queue, over all classes'),
  row('policyClasses[].name', 'text', 'name by which requests choose the class'),
  orNull('policyClasses[].family', 'text', 'classes of one family share its name'),
  row(
    'policyClasses[].minUncachedTokens',
    'whole',
    'inside a family: for prompts with at least this many uncached tokens',
  ),
  row('policyClasses[].queuePolicy', QUEUE_POLICIES, 'order inside the class'),
  row('policyClasses[].quantum', 'positive', 'uncached tokens that the class may send per round'),
  orNull(
    'policyClasses[].prefillBusyThreshold',
    'amount',
    'a worker with more prefill tokens in flight is busy',
  ),
  orNull(
    'policyClasses[].prefillBusyShare',
    'amount',
    'a worker with more prefill tokens than this share of its batch is busy',
  ),
  orNull('policyClasses[].requestLimitPerWorker', 'whole', 'queued requests per worker'),
  orNull('policyClasses[].promptTokenLimitPerWorker', 'whole', 'queued prompt tokens per worker'),
  orNull('policyClasses[].cachedTokenLimitPerWorker', 'whole', 'queued cached tokens per worker'),
  orNull(
    'policyClasses[].ttftTargetMs',
    'goal',
    'default latency goal of its requests: time to the first token',
  ),
  orNull(
    'policyClasses[].itlTargetMs',
    'goal',
    'default latency goal of its requests: time between tokens',
  ),
  row(
    'refuseLateGoals',
    'switch',
    'with cost time: refuse a request at once if no worker is predicted to meet its latency goals',
  ),
  row(
    'busy.activeDecodeBlocks',
    'share',
    'share of the KV blocks above which a rank is no candidate',
  ),
  row('busy.activePrefillTokens', 'amount', 'prefill tokens above which a rank is no candidate'),
  row('busy.activePrefillTokensShare', 'amount', 'the same as a share of its batch'),
  row('session.ttlSeconds', 'amount', 'idle time of a session; 0: only sessions opened explicitly'),
  row('session.soft', 'switch', "the session's worker is preferred, not required"),
  row('session.maxSessions', 'count', 'limit; the session that was idle longest is dropped'),
  row('conditional.enabled', 'switch', 'use a prefill worker only if it pays off'),
  row('conditional.policy', CONDITIONAL_POLICIES, 'policy that decides'),
  row(
    'conditional.effectiveIslThreshold',
    'amount',
    'prompts with fewer uncached tokens than this are short',
  ),
  row('conditional.effectiveIslRatioThreshold', 'share', '… and below this share of the prompt'),
  orNull(
    'conditional.prefillBusyThreshold',
    'amount',
    'a prefill worker with more prefill tokens than this share of its batch is busy; null: queueThreshold',
  ),
  orNull(
    'conditional.decodeBusyThreshold',
    'amount',
    'no bypass above this share of the KV blocks',
  ),
  row(
    'conditional.transferTokensPerToken',
    'amount',
    'KV transfer cost per token, in prefill tokens',
  ),
  row(
    'conditional.transferTokensFixed',
    'amount',
    'fixed cost of a prefill leg, in prefill tokens',
  ),
  row('conditional.interference', 'amount', 'slowdown of a local prefill per running decode'),
  row('topology.domain', 'text', "domain of the workers' cards within which KV is transferred"),
  row(
    'topology.enforcement',
    ['required', 'preferred'],
    'decode must (or should) stay in the domain',
  ),
  row('topology.preferredWeight', 'amount', 'strength of the preference'),
  row('deadlines.queueMs', 'amount', 'time in the queue; 0: no limit (the same for all deadlines)'),
  row(
    'deadlines.overloadWaitMs',
    'amount',
    'under overload, only as many requests queue as start within this time, the others are refused at once; 0: all queue',
  ),
  row('deadlines.prefillMs', 'amount', 'duration of the prefill leg'),
  row('deadlines.firstTokenMs', 'amount', 'from the start of decode to its first token'),
  row('deadlines.streamIdleMs', 'amount', 'between two tokens'),
  row(
    'deadlines.cancelMs',
    'amount',
    'time from a graceful cancellation to a forced one, and from the end of decode to the cancellation of a prefill that still runs',
  ),
  row('explainRecords', 'count', 'number of decisions kept for explain'),
  row('explainCandidates', 'whole', 'candidates kept per decision'),
]

/** A description of the allowed values, for error messages. */
export function expectedOf({ check, isNullable }: RouterOptionRow): string {
  const expected = typeof check === 'string' ? WORDS[check] : `one of ${check.join(', ')}`
  return isNullable ? `null or ${expected}` : expected
}

/** Null if the value is allowed, otherwise what was expected. */
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
