/**
 * Reads request traces: one JSON object per line with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`.
 *
 * `hash_ids[i]` stands for the prefix that ends at block i of 512 tokens, so equal leading ids are a shared prefix. The
 * tokens themselves are not in a trace; they are made from (id, offset), which gives equal ids equal tokens.
 */
import { BatonError } from '../base/index.ts'

export interface TraceRequest {
  readonly atMs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly hashIds: readonly number[]
}

export interface TraceOptions {
  /** Only the first so many requests. */
  readonly limit?: number
  /** Arrivals come so much faster. Default 1. */
  readonly arrivalSpeedup?: number
  /**
   * Requests of one timestamp are spread evenly up to the next one. The timestamps of the public conversation trace are
   * about 3 s apart, which makes bursts that were none.
   */
  readonly spread?: boolean
}

export const TRACE_BLOCK_TOKENS = 512

/** Throws `request.invalid_argument` with the number of the line that is wrong. */
export function parseTrace(text: string, options: TraceOptions = {}): TraceRequest[] {
  const requests: TraceRequest[] = []
  const limit = options.limit ?? Infinity
  for (const [i, line] of text.split('\n').entries()) {
    if (requests.length >= limit) break
    if (line.trim() !== '') requests.push(parseLine(line, i + 1))
  }
  const spread = options.spread === true ? spreadEvenly(requests) : requests
  const speedup = options.arrivalSpeedup ?? 1
  return speedup === 1
    ? spread
    : spread.map((request) => ({ ...request, atMs: request.atMs / speedup }))
}

function parseLine(line: string, number: number): TraceRequest {
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch (cause) {
    throw wrong(number, 'is not JSON', cause)
  }
  const { timestamp, input_length, output_length, hash_ids } = (entry ?? {}) as Record<
    string,
    unknown
  >
  if (typeof timestamp !== 'number' || !(timestamp >= 0)) throw wrong(number, 'has no timestamp')
  if (!isCount(input_length)) throw wrong(number, 'has no input_length')
  if (!isCount(output_length)) throw wrong(number, 'has no output_length')
  if (!Array.isArray(hash_ids) || !hash_ids.every((id) => Number.isSafeInteger(id)))
    throw wrong(number, 'has no hash_ids')
  if (hash_ids.length < Math.ceil(input_length / TRACE_BLOCK_TOKENS))
    throw wrong(number, 'has too few hash_ids for its input_length')
  return {
    atMs: timestamp,
    inputTokens: input_length,
    outputTokens: output_length,
    hashIds: hash_ids as number[],
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1
}

function wrong(line: number, what: string, cause?: unknown): BatonError {
  return new BatonError('request.invalid_argument', `line ${line} of the trace ${what}`, {
    data: { line },
    cause,
  })
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

/** The prompt of a trace's request: token j of a block is a function of the block's id and j. */
export function promptTokens(request: TraceRequest): Uint32Array {
  const tokens = new Uint32Array(request.inputTokens)
  for (let i = 0; i < tokens.length; i++) {
    const id = request.hashIds[Math.floor(i / TRACE_BLOCK_TOKENS)]!
    let x = Math.imul(id + 1, 0x9e3779b1) ^ Math.imul((i % TRACE_BLOCK_TOKENS) + 1, 0x85ebca77)
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d)
    tokens[i] = ((x ^ (x >>> 13)) >>> 0) % 100_000
  }
  return tokens
}

/** Share of prompt blocks that an endless shared cache would have: the limit of what routing can reach. */
export function idealReuse(requests: readonly TraceRequest[]): number {
  const seen = new Set<number>()
  let [hits, total] = [0, 0]
  for (const { hashIds } of requests) {
    for (const id of hashIds) {
      total += 1
      if (seen.has(id)) hits += 1
      else seen.add(id)
    }
  }
  return total === 0 ? 0 : hits / total
}

/** Blocks of a prompt that its first tokens fill; a block that is filled in part counts by that part. */
export function traceBlocksIn(tokens: number, promptTokens: number): number {
  const whole = Math.floor(tokens / TRACE_BLOCK_TOKENS)
  const rest = tokens - whole * TRACE_BLOCK_TOKENS
  if (rest === 0) return whole
  return whole + rest / Math.min(TRACE_BLOCK_TOKENS, promptTokens - whole * TRACE_BLOCK_TOKENS)
}
