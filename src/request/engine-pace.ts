/**
 * The speed of an engine, in milliseconds, as measured before it serves (`baton profile`). Routers start with these
 * rates until they have measured it themselves.
 */
import { isRecord } from '../base/index.ts'

export interface EnginePace {
  /** Fixed time of a prefill. */
  readonly promptMs: number
  /** Time per uncached prompt token. */
  readonly promptTokenMs: number
  /** Fixed time of a decode step. */
  readonly stepMs: number
  /** Time per request in a decode step. */
  readonly stepRequestMs: number
  /** Time per context token of the requests in a decode step. */
  readonly stepContextTokenMs: number
}

const FIELDS = [
  'promptMs',
  'promptTokenMs',
  'stepMs',
  'stepRequestMs',
  'stepContextTokenMs',
] as const satisfies readonly (keyof EnginePace)[]

/** One hour. */
const MS_MAX = 3_600_000

/** What is invalid about the value, as text; null: it is valid. Additional fields are allowed. */
export function enginePaceFault(value: unknown): string | null {
  if (!isRecord(value)) return `expected a record of ${FIELDS.join(', ')}`
  for (const field of FIELDS) {
    const ms = value[field]
    if (typeof ms !== 'number' || !(ms >= 0 && ms <= MS_MAX))
      return `${field} is ${String(ms)}: expected milliseconds from 0 to ${MS_MAX}`
  }
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } =
    value as unknown as EnginePace
  if (promptMs + promptTokenMs === 0) return 'a prompt takes no time'
  return stepMs + stepRequestMs + stepContextTokenMs === 0 ? 'a step takes no time' : null
}
