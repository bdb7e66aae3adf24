/**
 * Everything that can be set about routing, checked, defaulted and frozen once at the edge.
 *
 * Owns: names, defaults and limits of the options. A wrong value is `config.invalid` and names the option.
 * Does not own: what an option does (the file that reads it says so).
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

/** How long each stage of a request may take; 0 means without end. */
export interface StageDeadlines {
  readonly queueMs: number
  /** Under overload: only as many wait as go on in this time. */
  readonly overloadWaitMs: number
  /** From the dispatch of the prefill leg to its result. */
  readonly prefillMs: number
  /** From the dispatch of decode to its first token, KV transfer included; an aggregated leg has both times. */
  readonly firstTokenMs: number
  /** Between two tokens. */
  readonly streamIdleMs: number
  /** After an orderly stop was asked for; then the leg is killed. */
  readonly cancelMs: number
}

export interface SessionConfig {
  /** 0: affinity only for sessions that a request opens itself. */
  readonly ttlSeconds: number
  /** A bound worker is preferred, not demanded. */
  readonly soft: boolean
  readonly maxSessions: number
}

export interface RouterConfig extends CostWeights {
  readonly mode: RouterMode
  /** Costs in KV blocks with weights, or in milliseconds by learned rates. */
  readonly cost: CostModel
  /** Tokens per KV block of workers that do not say their own; null: these are routed to without KV. */
  readonly blockSize: number | null
  readonly useKvEvents: boolean
  readonly assumeKvReuse: boolean
  readonly trackActiveBlocks: boolean
  readonly trackOutputBlocks: boolean
  readonly trackPrefillTokens: boolean
  /** Speed of a prefill, so that its load decays while it runs; null: it stays until the first token. */
  readonly prefillTokensPerSecond: number | null
  /** Life of a predicted holding after a decision; 0: none. Without KV events it is the only index. */
  readonly predictedTtlSeconds: number
  readonly approximateTtlSeconds: number
  /** Bound of what is estimated without events, in (rank, block) pairs. */
  readonly maxIndexBlocks: number
  /** Memory of the index that is kept by events, for each pool; at its end the oldest chains are given up. */
  readonly indexBytes: number
  /** Requests are refused instead of falling back to aggregated serving. */
  readonly enforceDisaggregation: boolean
  readonly disaggregation: boolean
  readonly prefillRetries: number
  /** Requests that may wait inside a worker beside those that it runs; the others wait in the router. Null: any number. */
  readonly engineQueue: number | null
  readonly queueThreshold: number | null
  readonly queuePolicy: QueuePolicy
  readonly policyClasses: readonly PolicyClass[]
  /** Bound of the whole queue, over all classes. */
  readonly maxQueuedRequests: number
  /** With `cost: time`: a request whose goals no worker is predicted to meet is refused at once. */
  readonly refuseLateGoals: boolean
  readonly busy: BusyThresholds
  readonly session: SessionConfig
  readonly conditional: ConditionalConfig
  readonly topology: TopologyPolicy | null
  readonly deadlines: StageDeadlines
  readonly explainRecords: number
  /** Candidates that a record keeps, best first. */
  readonly explainCandidates: number
  readonly filters: readonly Filter[]
  readonly scorers: readonly Scorer[]
  readonly picker: Picker | null
  readonly sharedCache: SharedCache | null
}

/** What a user may give; everything is optional. */
export type RouterOptions = Partial<
  Omit<RouterConfig, 'session' | 'conditional' | 'deadlines' | 'policyClasses'>
> & {
  readonly session?: Partial<SessionConfig>
  readonly conditional?: ConditionalOptions
  readonly deadlines?: Partial<StageDeadlines>
  readonly policyClasses?: readonly PolicyClassOptions[]
}

/** With `cost: time`: what has been sent counts at once. */
const PREDICTED_TTL_SECONDS = 5

const DEFAULTS = {
  mode: 'kv',
  cost: 'blocks',
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

const SESSION_DEFAULTS: SessionConfig = { ttlSeconds: 0, soft: false, maxSessions: 100_000 }

const DEADLINE_DEFAULTS: StageDeadlines = {
  queueMs: 30_000,
  overloadWaitMs: 500,
  prefillMs: 150_000,
  firstTokenMs: 120_000,
  streamIdleMs: 120_000,
  cancelMs: 5_000,
}

export function completeRouterConfig(options: RouterOptions = {}): RouterConfig {
  const predictedTtlSeconds = options.cost === 'time' ? PREDICTED_TTL_SECONDS : 0
  const given = { ...DEFAULTS, predictedTtlSeconds, ...options }
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

/** Every option that can be said in a file, by its path, with its value; absent ones are left out. */
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
