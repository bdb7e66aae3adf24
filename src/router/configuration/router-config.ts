/**
 * All routing options: validated, completed with defaults and frozen once, when a router is created.
 *
 * Owns the names, defaults and limits of the options. An invalid value throws `config.invalid` and names the option.
 * What an option does is described in the file that reads it.
 */
import { BatonError } from '../../base/index.ts'
import type { BusyThresholds } from './busy-threshold.ts'
import { completeConditionalConfig } from './conditional-policy.ts'
import type { ConditionalConfig, ConditionalOptions } from './conditional-policy.ts'
import { completePolicyClasses } from './policy-class.ts'
import type { PolicyClass, PolicyClassOptions, QueuePolicy } from './policy-class.ts'
import type { CostModel } from '../cost/cost-function.ts'
import { checkPolicyParts } from '../cost/policy-check.ts'
import type { Filter, Picker, Scorer, SharedCache } from '../cost/policy-part.ts'
import { DEFAULT_WEIGHTS } from '../cost/weights.ts'
import type { CostWeights } from '../cost/weights.ts'
import { objectionTo, ROUTER_OPTION_TABLE } from './router-option-table.ts'
import type { ROUTER_MODES } from './router-option-table.ts'
import type { TopologyPolicy } from './topology.ts'

export type RouterMode = (typeof ROUTER_MODES)[number]

/** Time limits of the stages of a request, in milliseconds; 0 means no limit. */
export interface StageDeadlines {
  readonly queueMs: number
  /** Under overload, only as many requests may queue as the pool starts within this time. */
  readonly overloadWaitMs: number
  /** From the dispatch of the prefill leg to its result. */
  readonly prefillMs: number
  /**
   * From the dispatch of the decode leg to its first token, including the KV transfer. An aggregated leg gets
   * `prefillMs` + `firstTokenMs`.
   */
  readonly firstTokenMs: number
  /** Between two tokens. */
  readonly streamIdleMs: number
  /**
   * From an orderly cancellation to the moment the leg is killed, and from the end of decode to the cancellation of a
   * prefill leg that still runs.
   */
  readonly cancelMs: number
}

export interface SessionConfig {
  /** Idle time until a session loses its worker. 0: only sessions that a request opens explicitly have affinity. */
  readonly ttlSeconds: number
  /** True: the session's worker is preferred. False: the session's worker is required. */
  readonly soft: boolean
  readonly maxSessions: number
}

export interface RouterConfig extends CostWeights {
  readonly mode: RouterMode
  /** `blocks`: cost in KV blocks with configured weights. `time`: cost in milliseconds with learned rates. */
  readonly cost: CostModel
  /**
   * Tokens per KV block for workers that do not report a block size. Null: those workers are routed to without KV
   * awareness.
   */
  readonly blockSize: number | null
  readonly useKvEvents: boolean
  readonly assumeKvReuse: boolean
  readonly trackActiveBlocks: boolean
  readonly trackOutputBlocks: boolean
  readonly trackPrefillTokens: boolean
  /**
   * Prefill speed, used to let booked prefill load decay while the prefill runs. Null: it stays until the first
   * token.
   */
  readonly prefillTokensPerSecond: number | null
  /**
   * How long a prompt that was just routed is assumed to be cached on its worker, beside KV events. 0: not at all.
   * Without KV events these estimates are the only index.
   */
  readonly predictedTtlSeconds: number
  readonly approximateTtlSeconds: number
  /** Limit of the estimated index (used without KV events), in (rank, block) pairs. */
  readonly maxIndexBlocks: number
  /**
   * Memory limit, in bytes and per pool, of the index that is built from KV events. When it is reached, the oldest
   * chains are evicted.
   */
  readonly indexBytes: number
  /** Refuse a request that cannot be disaggregated, instead of serving it aggregated. */
  readonly enforceDisaggregation: boolean
  readonly disaggregation: boolean
  readonly prefillRetries: number
  /**
   * Requests that may queue inside a worker beyond those that it runs; further requests queue in the router. Null: no
   * limit.
   */
  readonly engineQueue: number | null
  readonly queueThreshold: number | null
  readonly queuePolicy: QueuePolicy
  readonly policyClasses: readonly PolicyClass[]
  /** Limit of the whole queue, summed over all classes. */
  readonly maxQueuedRequests: number
  /** With `cost: time`: refuse a request at once if no worker is predicted to meet its latency goals. */
  readonly refuseLateGoals: boolean
  readonly busy: BusyThresholds
  readonly session: SessionConfig
  readonly conditional: ConditionalConfig
  readonly topology: TopologyPolicy | null
  readonly deadlines: StageDeadlines
  readonly explainRecords: number
  /** Number of candidates kept in a decision record, best first. */
  readonly explainCandidates: number
  readonly filters: readonly Filter[]
  readonly scorers: readonly Scorer[]
  readonly picker: Picker | null
  readonly sharedCache: SharedCache | null
}

/** The options as a user gives them: every field is optional. */
export type RouterOptions = Partial<
  Omit<RouterConfig, 'session' | 'conditional' | 'deadlines' | 'policyClasses'>
> & {
  readonly session?: Partial<SessionConfig>
  readonly conditional?: ConditionalOptions
  readonly deadlines?: Partial<StageDeadlines>
  readonly policyClasses?: readonly PolicyClassOptions[]
}

/** Default of `predictedTtlSeconds` with `cost: time`: a prompt that was just sent counts as cached at once. */
const PREDICTED_TTL_SECONDS = 5

const DEFAULTS = {
  mode: 'kv',
  cost: 'time',
  blockSize: null,
  ...DEFAULT_WEIGHTS,
  overlapScoreCreditDecay: 0,
  temperature: 0,
  useKvEvents: true,
  assumeKvReuse: true,
  trackActiveBlocks: true,
  trackOutputBlocks: false,
  trackPrefillTokens: true,
  prefillTokensPerSecond: null,
  approximateTtlSeconds: 120,
  maxIndexBlocks: 1 << 22,
  indexBytes: 1 << 29,
  enforceDisaggregation: false,
  disaggregation: true,
  prefillRetries: 2,
  engineQueue: 4,
  queueThreshold: null,
  queuePolicy: 'fcfs',
  maxQueuedRequests: 4096,
  refuseLateGoals: true,
  busy: {},
  topology: null,
  explainRecords: 1024,
  explainCandidates: 16,
  filters: [],
  scorers: [],
  picker: null,
  sharedCache: null,
} as const satisfies Omit<
  RouterConfig,
  'predictedTtlSeconds' | 'session' | 'conditional' | 'deadlines' | 'policyClasses'
>

/** Weights that `cost: time` does not use. */
const BLOCKS_ONLY = [
  'overlapScoreCredit',
  'sharedCacheMultiplier',
  'prefillLoadScale',
  'decodeActiveRequestWeight',
] as const

const SESSION_DEFAULTS: SessionConfig = { ttlSeconds: 0, soft: false, maxSessions: 100_000 }

const DEADLINE_DEFAULTS: StageDeadlines = {
  queueMs: 30_000,
  overloadWaitMs: 350,
  prefillMs: 150_000,
  firstTokenMs: 120_000,
  streamIdleMs: 120_000,
  cancelMs: 5_000,
}

export function completeRouterConfig(options: RouterOptions = {}): RouterConfig {
  const cost = options.cost ?? (isTunedInBlocks(options) ? 'blocks' : DEFAULTS.cost)
  const predictedTtlSeconds = cost === 'time' ? PREDICTED_TTL_SECONDS : 0
  const given = { ...DEFAULTS, predictedTtlSeconds, ...options, cost }
  const queuePolicy = given.queuePolicy
  const config: RouterConfig = {
    ...given,
    session: { ...SESSION_DEFAULTS, ...options.session },
    conditional: completeConditionalConfig(options.conditional ?? {}, given.queueThreshold),
    deadlines: { ...DEADLINE_DEFAULTS, ...options.deadlines },
    policyClasses: completePolicyClasses(options.policyClasses ?? [], {
      queuePolicy,
      queueThreshold: given.queueThreshold,
    }),
  }
  checkRouterConfig(config)
  return Object.freeze(config)
}

/** True if options only have a meaning in blocks: without `cost`, whoever has tuned them keeps costs in blocks. */
function isTunedInBlocks(options: RouterOptions): boolean {
  if ((options.scorers ?? []).length > 0 || (options.overlapScoreCreditDecay ?? 0) > 0) return true
  return BLOCKS_ONLY.some((name) => (options[name] ?? DEFAULTS[name]) !== DEFAULTS[name])
}

function checkRouterConfig(config: RouterConfig): void {
  checkPolicyParts(config)
  for (const { path, value } of listRouterOptions(config)) {
    const row = ROUTER_OPTION_TABLE.find((one) => one.path === path.replace(/\[[0-9]+\]/, '[]'))
    const objection = row === undefined ? null : objectionTo(row, value)
    if (objection !== null) throw invalid(path, value, objection)
  }
  if (config.trackOutputBlocks && !config.trackActiveBlocks) {
    throw invalid('trackOutputBlocks', true, 'false unless trackActiveBlocks is on')
  }
  if (config.enforceDisaggregation && !config.disaggregation) {
    throw invalid('enforceDisaggregation', true, 'false when disaggregation is off')
  }
}

/** Lists every option that can be written in a file, as path and value; options that are not set are omitted. */
export function listRouterOptions(
  options: RouterOptions,
): readonly { readonly path: string; readonly value: RouterOptionValue }[] {
  const heads = new Set(ROUTER_OPTION_TABLE.map(({ path }) => path.replace(/[.[].*/, '')))
  return [...heads].flatMap((head) => {
    const own = (options as Readonly<Record<string, unknown>>)[head]
    const members = Array.isArray(own) ? own : [own]
    return members.flatMap((member: unknown, i) =>
      ROUTER_OPTION_TABLE.filter(({ path }) => path.replace(/[.[].*/, '') === head).flatMap(
        ({ path }) => {
          const field = path.split('.')[1]
          const value = field === undefined ? member : (member as Fields)?.[field]
          return value === undefined
            ? []
            : [{ path: path.replace('[]', `[${i}]`), value: value as RouterOptionValue }]
        },
      ),
    )
  })
}

type RouterOptionValue = string | number | boolean | null
type Fields = Readonly<Record<string, unknown>> | null | undefined

function invalid(option: string, value: unknown, expected: string): BatonError {
  return new BatonError(
    'config.invalid',
    `router option '${option}' must be ${expected}, got ${String(value)}`,
    { data: { option } },
  )
}
