/**
 * Reads traces of requests, whatever wrote them, and arranges their times.
 *
 * | format | a line |
 * |---|---|
 * | `mooncake` | JSON with `timestamp` (ms), `input_length`, `output_length`, `hash_ids`; Dynamo's `session_id` and `delay` too |
 * | `agentic` | Dynamo's graphs of requests: a header, then JSON with `dependencies` |
 * | `dynamo` | what Dynamo's servers recorded: JSON with `event_type` `request_end` |
 * | `log` | a line of Baton's own log that says `request ended` |
 * | `csv` | lengths, with or without a time |
 */
import { BatonError } from '../../base/index.ts'
import { parseAgentic, parseDynamoRecords } from './agentic-trace.ts'
import { parseCsv } from './csv-trace.ts'
import { parseRequestLog } from './request-log-trace.ts'
import { parseMooncake } from './mooncake-trace.ts'
import type { TraceRequest } from './trace-request.ts'

export const TRACE_FORMATS = ['auto', 'mooncake', 'agentic', 'dynamo', 'log', 'csv'] as const
export type TraceFormat = (typeof TRACE_FORMATS)[number]

export interface TraceOptions {
  readonly format?: TraceFormat
  /** Tokens per hash id, where the trace does not say. Default 512. */
  readonly blockTokens?: number
  /** Only the first so many requests. */
  readonly limit?: number
  /** Arrivals come so much faster; pauses between turns stay. Default 1. */
  readonly arrivalSpeedup?: number
  /**
   * Requests of one timestamp are spread evenly up to the next one. The timestamps of the public conversation trace are
   * about 3 s apart, which makes bursts that were none.
   */
  readonly spread?: boolean
}

/** Throws `request.invalid_argument` with the number of the line that is wrong. */
export function parseTrace(text: string, options: TraceOptions = {}): TraceRequest[] {
  const { limit = Infinity, blockTokens } = options
  if (blockTokens !== undefined && !(Number.isSafeInteger(blockTokens) && blockTokens >= 1))
    throw new BatonError('config.invalid', 'blockTokens: expected a whole number ≥ 1')
  const lines = text.split('\n')
  return arrangeTrace(parseLines(lines, limit, options), options)
}

function parseLines(
  lines: readonly string[],
  limit: number,
  options: TraceOptions,
): TraceRequest[] {
  switch (
    options.format === undefined || options.format === 'auto' ? formatOf(lines) : options.format
  ) {
    case 'mooncake':
      return parseMooncake(lines, limit, options.blockTokens)
    case 'agentic':
      return parseAgentic(lines, limit)
    case 'dynamo':
      return parseDynamoRecords(lines, limit)
    case 'log':
      return parseRequestLog(lines, limit)
    default:
      return parseCsv(lines, limit)
  }
}

/** By the first line that is not empty. */
function formatOf(lines: readonly string[]): TraceFormat {
  const first = lines.find((line) => line.trim() !== '') ?? ''
  if (!first.trimStart().startsWith('{')) return first.includes(',') ? 'csv' : 'mooncake'
  if (first.includes('"dynamo.agentic_mooncake"')) return 'agentic'
  if (first.includes('"event_type"')) return 'dynamo'
  return first.includes('"hash_ids"') || !first.includes('"msg"') ? 'mooncake' : 'log'
}

/** Limit, spread and speed-up of requests that are already read, or made. */
export function arrangeTrace(
  all: readonly TraceRequest[],
  options: TraceOptions = {},
): TraceRequest[] {
  const requests = all.slice(0, options.limit)
  const spread = options.spread === true ? spreadEvenly(requests) : requests
  const speedup = options.arrivalSpeedup ?? 1
  if (!(speedup > 0))
    throw new BatonError('config.invalid', 'arrivalSpeedup: expected a number > 0')
  return speedup === 1
    ? spread
    : spread.map((request) => ({ ...request, atMs: request.atMs / speedup }))
}

function spreadEvenly(requests: readonly TraceRequest[]): TraceRequest[] {
  const spread: TraceRequest[] = []
  let from = 0
  while (from < requests.length) {
    const { atMs } = requests[from]!
    let to = from
    while (to < requests.length && requests[to]!.atMs === atMs) to += 1
    const untilMs = requests[to]?.atMs ?? atMs
    for (let i = from; i < to; i++) {
      const share = (i - from) / (to - from)
      spread.push({ ...requests[i]!, atMs: atMs + share * Math.max(0, untilMs - atMs) })
    }
    from = to
  }
  return spread
}
