/**
 * Reads router options from JSON. Accepts Baton's own option names and those of Dynamo's `KvRouterConfig`, so that
 * existing files can be used. An unknown name or an invalid value throws `config.invalid` with the path in the file.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { objectionTo, ROUTER_OPTION_TABLE } from './router-option-table.ts'
import { WEIGHT_OPTIONS } from '../cost/weights.ts'
import type { RouterOptions } from './router-config.ts'

/** Dynamo's option name → Baton's option path; a dot enters a group. */
const FOREIGN: Readonly<Record<string, string>> = {
  ...Object.fromEntries(WEIGHT_OPTIONS.map(({ option }) => [snakeCase(option), option])),
  overlap_score_credit_decay: 'overlapScoreCreditDecay',
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

const ROWS = new Map(ROUTER_OPTION_TABLE.map((row) => [row.path, row]))
/** Option groups that may also be null. */
const NULLABLE_GROUPS: ReadonlySet<string> = new Set(['topology'])

/** Throws `config.invalid`, naming the option. */
export function parseRouterOptions(json: unknown): RouterOptions {
  if (!isRecord(json)) {
    throw new BatonError(
      'config.invalid',
      'router options are invalid: expected an object of names and values',
    )
  }
  const options: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(json)) {
    if (name === 'overlap_score_weight') applyOlderWeight(options, value)
    else if (name.includes('.')) throw unknown('', name)
    else if (Object.hasOwn(FOREIGN, name)) placeForeign(options, name, value)
    else options[name] = merged(options[name], checked(name, name, value))
  }
  return options as RouterOptions
}

/**
 * Applies an option under its Dynamo name. Dynamo writes null for "not set"; such a null is ignored unless Baton's
 * option accepts null.
 */
function placeForeign(options: Record<string, unknown>, name: string, value: unknown): void {
  const path = FOREIGN[name] as string
  if (value === null && ROWS.get(path)?.isNullable !== true) return
  checked(path, name, value)
  const [group = '', field] = path.split('.')
  if (field === undefined) options[group] = value
  else options[group] = { ...(options[group] as object | undefined), [field]: value }
}

/**
 * `overlap_score_weight`, Dynamo's oldest name: it scaled the prefill term, and 0 disabled the overlap credit. It
 * takes precedence over the newer names.
 */
function applyOlderWeight(options: Record<string, unknown>, value: unknown): void {
  checked('prefillLoadScale', 'overlap_score_weight', value)
  options['prefillLoadScale'] = value
  if (value === 0) options['overlapScoreCredit'] = 0
}

/** Validates a value. `path` is the option's path in the table, `name` its name in the file. Returns the value. */
function checked(path: string, name: string, value: unknown): unknown {
  const row = ROWS.get(path)
  if (row !== undefined) {
    const objection = objectionTo(row, value)
    if (objection === null) return value
    throw invalid(name, `must be ${objection}, got ${JSON.stringify(value)}`)
  }
  if (hasUnder(`${path}[].`)) {
    if (!Array.isArray(value)) throw invalid(name, 'must be a list')
    value.forEach((member, i) => checkGroup(`${path}[].`, `${name}[${i}]`, member))
    return value
  }
  if (!hasUnder(`${path}.`)) throw unknown(path, name)
  if (value !== null || !NULLABLE_GROUPS.has(path)) checkGroup(`${path}.`, name, value)
  return value
}

function checkGroup(prefix: string, name: string, value: unknown): void {
  if (!isRecord(value)) throw invalid(name, 'must be an object of options')
  for (const [key, inner] of Object.entries(value)) {
    checked(`${prefix}${key}`, `${name}.${key}`, inner)
  }
}

const hasUnder = (prefix: string): boolean =>
  ROUTER_OPTION_TABLE.some(({ path }) => path.startsWith(prefix))

function unknown(path: string, name: string): BatonError {
  const prefix = path.slice(0, path.lastIndexOf('.') + 1)
  const names = ROUTER_OPTION_TABLE.filter((row) => row.path.startsWith(prefix)).map((row) =>
    row.path.slice(prefix.length).replace(/[.[].*/, ''),
  )
  return invalid(name, `is not known; there are: ${[...new Set(names)].join(', ')}`)
}

function invalid(name: string, what: string): BatonError {
  return new BatonError('config.invalid', `router option '${name}' ${what}`, {
    data: { option: name },
  })
}

/** Merges a group with the fields of the same group that were set under their Dynamo names. */
function merged(before: unknown, value: unknown): unknown {
  return isRecord(before) && isRecord(value) ? { ...before, ...value } : value
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
