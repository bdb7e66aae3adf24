/**
 * The phases of a request as time spans: the start and end of what each phase event reports.
 */
import type { LoggedRequest } from '../../frontend/index.ts'
import { shortId } from '../data/format.ts'

export interface Bar {
  readonly name: string
  readonly kind: string
  readonly fromMs: number
  readonly toMs: number
  readonly note: string
}

export function barsOf({ phases, end }: LoggedRequest): readonly Bar[] {
  const bars: Bar[] = []
  let firstTokenMs: number | null = null
  for (const phase of phases) {
    const { kind, atMs, elapsedMs = 0, queuedMs = 0, workerId, phase: leg } = phase
    const where = workerId === undefined ? '' : ` at ${shortId(workerId)}`
    const name = leg === undefined || leg === 'aggregated' ? '' : `${leg}: `
    const add = (what: string, of: string, lengthMs: number, note = where): void => {
      bars.push({ name: what, kind: of, fromMs: Math.max(0, atMs - lengthMs), toMs: atMs, note })
    }
    if (kind === 'tokenised') add('template, tokenizer', 'text', elapsedMs, '')
    else if (kind === 'routed') add(`${name}router queue`, 'queue', queuedMs)
    else if (kind === 'prefillStarted' || kind === 'decodeStarted')
      add(`${name}dispatch and engine queue`, 'queue', queuedMs)
    else if (kind === 'prefillDone') add(`${name}prompt computed`, 'prefill', elapsedMs)
    else if (kind === 'kvTransferred') add('KV transferred', 'transfer', elapsedMs)
    else if (kind === 'migrated') add('migrated', 'migrated', 0, `: ${phase.errorCode ?? ''}`)
    else if (kind === 'firstToken') firstTokenMs = atMs
  }
  if (firstTokenMs !== null) {
    const toMs = end?.durationMs ?? firstTokenMs
    bars.push({
      name: 'tokens',
      kind: 'decode',
      fromMs: firstTokenMs,
      toMs,
      note: end === null ? ', still running' : `: ${end.completionTokens}`,
    })
  }
  return bars
}
