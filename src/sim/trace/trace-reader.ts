/**
 * Reads traces of requests in several formats, and arranges their times.
 *
 * | format | line |
 * |---|---|
 * | `mooncake` | JSON with `timestamp` (ms), `input_length`, `output_length`, `hash_ids`; Dynamo's `session_id` and `delay` too |
 * | `agentic` | Dynamo's graphs of requests: a header, then JSON with `dependencies` |
 * | `dynamo` | recordings of Dynamo's servers: JSON with `event_type` `request_end` |
 * | `log` | a `request ended` line of Baton's own log |
 * | `csv` | lengths, with or without a time |
 */
import { BatonError } from '../../base/index.ts'
import { parseAgentic, parseDynamoRecords } from './agentic-trace.ts'
import { parseCsv } from './csv-trace.ts'
import { parseRequestLog } from './request-log-trace.ts'
import { parseMooncake } from './mooncake-trace.ts'
import type { TraceRequest } from './trace-request.ts'

export const TRACE_FORMATS = ['auto', 'mooncake', 'agentic', 'dynamo', 'log', 'csv'] as const
/** 100 years. Above about three times as much, times have no microseconds any more, and latencies would be wrong. */
const SPAN_MS_MAX = 100 * 365.25 * 86_400_000
const BYTE_ORDER_MARK = '\uFEFF'

export type TraceFormat = (typeof TRACE_FORMATS)[number]

export interface TraceOptions {
  readonly format?: TraceFormat
  /** Tokens per hash id, where the trace does not contain it. Default 512. */
  readonly blockTokens?: number
  /** Only the first n requests. */
  readonly limit?: number
  /** Factor by which arrivals are sped up; pauses between turns are kept. Default 1. */
  readonly arrivalSpeedup?: number
  /**
   * Spread requests of one timestamp evenly until the next one. The timestamps of the public conversation trace are
   * about 3 s apart, which causes artificial bursts.
   */
  readonly spread?: boolean
}

/**
 * `text`: a text, or its lines, because a large file exceeds the maximum length of a string. Throws
 * `request.invalid_argument` with the number of the wrong line.
 */
export function parseTrace(
  text: string | readonly string[],
  options: TraceOptions = {},
): TraceRequest[] {
  const { limit = Infinity, blockTokens } = options
  if (blockTokens !== undefined && !(Number.isSafeInteger(blockTokens) && blockTokens >= 1))
    throw new BatonError('config.invalid', 'blockTokens: expected a whole number ≥ 1')
  const lines = typeof text === 'string' ? text.split('\n') : [...text]
  if (lines[0]?.startsWith(BYTE_ORDER_MARK) === true) lines[0] = lines[0].slice(1)
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

/** A line of a server's log, which may be preceded by other output of the server. */
function isServerLine(line: string): boolean {
  return line.startsWith('{"level":') && line.includes('"msg":')
}

/** Detected from the first line that is not empty. */
function formatOf(lines: readonly string[]): TraceFormat {
  const first = lines.find((line) => line.trim() !== '') ?? ''
  if (!/^\s*[[{]/.test(first)) return lines.some(isServerLine) ? 'log' : 'csv'
  if (first.includes('"dynamo.agentic_mooncake"')) return 'agentic'
  if (first.includes('"event_type"')) return 'dynamo'
  return first.includes('"hash_ids"') || !first.includes('"msg"') ? 'mooncake' : 'log'
}

/** Applies limit, spread and speed-up to requests; the earliest one comes at 0. */
export function arrangeTrace(
  all: readonly TraceRequest[],
  options: TraceOptions = {},
): TraceRequest[] {
  const requests = fromZero(all.slice(0, options.limit))
  const spread = options.spread === true ? spreadEvenly(requests) : [...requests]
  const speedup = options.arrivalSpeedup ?? 1
  if (!(speedup > 0))
    throw new BatonError('config.invalid', 'arrivalSpeedup: expected a number > 0')
  return speedup === 1
    ? spread
    : spread.map((request) => ({ ...request, atMs: request.atMs / speedup }))
}

/** A part of a trace, or one with clock times, starts at its earliest request. */
function fromZero(requests: readonly TraceRequest[]): readonly TraceRequest[] {
  const firstMs = requests.reduce((least, { atMs }) => Math.min(least, atMs), Infinity)
  const late = requests.findIndex(({ atMs }) => atMs - firstMs > SPAN_MS_MAX)
  if (late !== -1) {
    const text = `request ${late + 1} of the trace comes more than 100 years after the earliest one: are its times milliseconds?`
    throw new BatonError('request.invalid_argument', text)
  }
  if (firstMs === 0) return requests
  return requests.map((request) => ({ ...request, atMs: request.atMs - firstMs }))
}

/** Requests with a time of their own; a turn that follows another one has none. */
function spreadEvenly(requests: readonly TraceRequest[]): TraceRequest[] {
  const spread = [...requests]
  const order = [...requests.keys()]
    .filter((index) => requests[index]!.after === undefined)
    .toSorted((a, b) => requests[a]!.atMs - requests[b]!.atMs)
  let from = 0
  while (from < order.length) {
    const { atMs } = requests[order[from]!]!
    let to = from
    while (to < order.length && requests[order[to]!]!.atMs === atMs) to += 1
    const untilMs = to < order.length ? requests[order[to]!]!.atMs : atMs
    for (let i = from; i < to; i++) {
      const share = (i - from) / (to - from)
      const index = order[i]!
      spread[index] = { ...requests[index]!, atMs: atMs + share * (untilMs - atMs) }
    }
    from = to
  }
  return spread
}
