/**
 * Router options from a JSON file: Baton's own names, and the names of Dynamo's `KvRouterConfig` for whoever has such a
 * file already. An unknown name is an error that names it; the values are checked when the config is completed.
 */
import { BatonError } from '../base/index.ts'
import type { RouterOptions } from './router-config.ts'

type Kind =
  | 'number'
  | 'boolean'
  | 'string'
  | 'number or null'
  | 'list'
  | 'object'
  | 'object or null'

const OWN: Readonly<Record<string, Kind>> = {
  mode: 'string',
  blockSize: 'number',
  overlapScoreCredit: 'number',
  overlapScoreCreditDecay: 'number',
  prefillLoadScale: 'number',
  decodeActiveRequestWeight: 'number',
  hostCacheHitWeight: 'number',
  diskCacheHitWeight: 'number',
  sharedCacheMultiplier: 'number',
  temperature: 'number',
  useKvEvents: 'boolean',
  assumeKvReuse: 'boolean',
  trackActiveBlocks: 'boolean',
  trackOutputBlocks: 'boolean',
  trackPrefillTokens: 'boolean',
  prefillTokensPerSecond: 'number or null',
  predictedTtlSeconds: 'number',
  approximateTtlSeconds: 'number',
  maxIndexBlocks: 'number',
  enforceDisaggregation: 'boolean',
  disaggregation: 'boolean',
  prefillRetries: 'number',
  queueThreshold: 'number or null',
  queuePolicy: 'string',
  maxQueuedRequests: 'number',
  policyClasses: 'list',
  busy: 'object',
  session: 'object',
  conditional: 'object',
  topology: 'object or null',
  deadlines: 'object',
  explainRecords: 'number',
  explainCandidates: 'number',
}

/** Dynamo's name → ours; a dot leads into a group. */
const FOREIGN: Readonly<Record<string, string>> = {
  overlap_score_credit: 'overlapScoreCredit',
  overlap_score_credit_decay: 'overlapScoreCreditDecay',
  prefill_load_scale: 'prefillLoadScale',
  decode_active_request_weight: 'decodeActiveRequestWeight',
  host_cache_hit_weight: 'hostCacheHitWeight',
  disk_cache_hit_weight: 'diskCacheHitWeight',
  shared_cache_multiplier: 'sharedCacheMultiplier',
  router_temperature: 'temperature',
  use_kv_events: 'useKvEvents',
  router_assume_kv_reuse: 'assumeKvReuse',
  router_track_active_blocks: 'trackActiveBlocks',
  router_track_output_blocks: 'trackOutputBlocks',
  router_track_prefill_tokens: 'trackPrefillTokens',
  router_ttl_secs: 'approximateTtlSeconds',
  router_predicted_ttl_secs: 'predictedTtlSeconds',
  router_queue_threshold: 'queueThreshold',
  router_queue_policy: 'queuePolicy',
  session_affinity_soft: 'session.soft',
  router_session_affinity_ttl_secs: 'session.ttlSeconds',
  conditional_disagg_enabled: 'conditional.enabled',
  conditional_disagg_policy: 'conditional.policy',
  conditional_disagg_eff_isl_threshold: 'conditional.effectiveIslThreshold',
  conditional_disagg_eff_isl_ratio_threshold: 'conditional.effectiveIslRatioThreshold',
  conditional_disagg_prefill_busy_threshold: 'conditional.prefillBusyThreshold',
  conditional_disagg_decode_busy_threshold: 'conditional.decodeBusyThreshold',
}

/** Throws `config.invalid`, naming the option. */
export function parseRouterOptions(json: unknown): RouterOptions {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new BatonError('config.invalid', 'router options must be a JSON object')
  }
  const options: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(json)) {
    if (name === 'overlap_score_weight') applyOlderWeight(options, value)
    else place(options, name, value)
  }
  return options as RouterOptions
}

function place(options: Record<string, unknown>, name: string, value: unknown): void {
  const foreign = Object.hasOwn(FOREIGN, name) ? FOREIGN[name] : undefined
  const own = foreign ?? name
  const [group, field] = foreign?.split('.') ?? []
  if (field !== undefined && group !== undefined) {
    // An absent value of the field is null there and simply absent here.
    if (value === null && !own.endsWith('Threshold')) return
    options[group] = { ...(options[group] as object | undefined), [field]: value }
    return
  }
  const kind = Object.hasOwn(OWN, own) ? OWN[own] : undefined
  if (kind === undefined) {
    throw new BatonError('config.invalid', `router option '${name}' is not known`, {
      data: { option: name },
    })
  }
  if (value === null && name !== own && !kind.endsWith('null')) return
  if (!isKind(value, kind)) {
    throw new BatonError(
      'config.invalid',
      `router option '${name}' must be a ${kind}, got ${JSON.stringify(value)}`,
      { data: { option: name } },
    )
  }
  options[own] = isGroup(kind, value)
    ? { ...(options[own] as object | undefined), ...(value as object) }
    : value
}

/** The oldest name: it scaled prefill, and 0 meant that overlap counts for nothing. It goes before the newer names. */
function applyOlderWeight(options: Record<string, unknown>, value: unknown): void {
  place(options, 'prefill_load_scale', value)
  if (value === 0) place(options, 'overlap_score_credit', 0)
}

function isKind(value: unknown, kind: Kind): boolean {
  if (value === null) return kind.endsWith('null')
  if (kind === 'list') return Array.isArray(value)
  return typeof value === kind.split(' ')[0] && !Array.isArray(value)
}

const isGroup = (kind: Kind, value: unknown): boolean => kind.startsWith('object') && value !== null
