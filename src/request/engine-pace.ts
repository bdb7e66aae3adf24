/**
 * How long an engine computes, as it was measured before it serves (`baton profile`): what routers begin with that have
 * seen nothing of it yet. In milliseconds.
 */
import { isRecord } from '../base/index.ts'

export interface EnginePace {
  /** Of a prompt, whatever its length. */
  readonly promptMs: number
  /** Of each token of it that is not cached. */
  readonly promptTokenMs: number
  /** Of a step of those that decode. */
  readonly stepMs: number
  /** Of each request in it. */
  readonly stepRequestMs: number
  /** Of each token of their contexts. */
  readonly stepContextTokenMs: number
}

const FIELDS = [
  'promptMs',
  'promptTokenMs',
  'stepMs',
  'stepRequestMs',
  'stepContextTokenMs',
] as const satisfies readonly (keyof EnginePace)[]

/** An hour. */
const MS_MAX = 3_600_000

/** What is wrong with it, in words; null: it is a pace. Other fields may stand beside these. */
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
