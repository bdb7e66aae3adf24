/**
 * Measured timing tables, under the names used by a planner's profiler, as a timing of the simulated engine.
 *
 * Five arrays: `prefill_isl` and `prefill_ttft_ms` (new prompt tokens → ms); `decode_active_kv_tokens` and
 * `decode_context_length` (the axes) and `decode_itl` (rows by columns → ms).
 */
import { isRecord } from '../../base/index.ts'
import { numbersOf, refuse } from './mock-arg-value.ts'
import type { SimTimingOptions } from '../scheduler/sim-timing.ts'

const NAMES = [
  'prefill_isl',
  'prefill_ttft_ms',
  'decode_active_kv_tokens',
  'decode_context_length',
  'decode_itl',
] as const

export const PLANNER_PROFILE_ARRAYS: readonly string[] = NAMES

/** Throws `config.invalid` with the name of the array that is missing or has another shape. */
export function plannerTiming(name: string, profile: unknown): SimTimingOptions {
  if (!isRecord(profile)) return refuse(name, profile, `an object with ${NAMES.join(', ')}`)
  const list = (key: (typeof NAMES)[number]): readonly number[] =>
    numbersOf(`${name}.${key}`, profile[key])
  const unknown = Object.keys(profile).find((key) => !PLANNER_PROFILE_ARRAYS.includes(key))
  if (unknown !== undefined) refuse(`${name}.${unknown}`, '…', 'left out: there is no such array')
  const prefill = { x: list('prefill_isl'), y: list('prefill_ttft_ms') }
  const rows = list('decode_active_kv_tokens')
  const columns = list('decode_context_length')
  const itl = profile['decode_itl']
  const isTable = Array.isArray(itl) && itl.length === rows.length
  if (!isTable) refuse(`${name}.decode_itl`, itl, `a list of ${rows.length} rows`)
  const values = (itl as unknown[]).map((row, i) => numbersOf(`${name}.decode_itl[${i}]`, row))
  return { kind: 'table', prefill, decode: { rows, columns, values } }
}
