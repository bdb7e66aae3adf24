/**
 * Traces in the format of the public Mooncake ones: one JSON object per line, with `timestamp` (ms), `input_length`,
 * `output_length` and `hash_ids`. Dynamo's additions are read, too: a line with `session_id` and `delay` is a turn that
 * follows the one before of its session, `delay` ms after that has ended; without a session `delay` counts from the line
 * before. A turn with a time instead follows by as much as it came after the one before. `block_size` says how many tokens
 * an id stands for; `input_length` may be left out, and what ids do not reach is shared with nobody.
 */
import { isRecord } from '../../base/index.ts'
import { isTokenCount, noCount, wrongLine } from './trace-line.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

export function parseMooncake(
  lines: readonly string[],
  limit: number,
  blockTokens = TRACE_BLOCK_TOKENS,
): TraceRequest[] {
  const requests: TraceRequest[] = []
  const sessions = new Map<string, LatestTurn>()
  let unsharedId = -1
  for (const [i, line] of lines.entries()) {
    if (requests.length >= limit) break
    if (line.trim() === '') continue
    const { request, atMs } = parseLine(line, i + 1, {
      blockTokens,
      sessions,
      before: requests.at(-1),
      unshared: () => unsharedId--,
    })
    if (request.sessionId !== undefined)
      sessions.set(request.sessionId, { index: requests.length, atMs })
    requests.push(request)
  }
  return requests
}

interface LatestTurn {
  readonly index: number
  /** Null: the trace does not say. */
  readonly atMs: number | null
}

interface LineContext {
  readonly blockTokens: number
  readonly sessions: ReadonlyMap<string, LatestTurn>
  readonly before: TraceRequest | undefined
  /** An id that no line has. */
  readonly unshared: () => number
}

function parseLine(
  line: string,
  number: number,
  context: LineContext,
): { readonly request: TraceRequest; readonly atMs: number | null } {
  const entry = parseJson(line, number)
  const times = timesOf(entry, number, context)
  const { hash_ids: hashIds, output_length: outputTokens } = entry
  const sessionId = sessionOf(entry, number)
  if (!Array.isArray(hashIds) || !hashIds.every((id) => Number.isSafeInteger(id)))
    throw wrongLine(number, 'has no hash_ids')
  const blockTokens = entry['block_size'] ?? context.blockTokens
  if (!isTokenCount(blockTokens)) throw wrongLine(number, 'has an invalid block_size')
  const inputTokens = entry['input_length'] ?? hashIds.length * blockTokens
  if (!isTokenCount(inputTokens)) throw wrongLine(number, noCount('input_length'))
  if (!isTokenCount(outputTokens)) throw wrongLine(number, noCount('output_length'))
  const missing = Math.ceil(inputTokens / blockTokens) - hashIds.length
  const { priority, timestamp } = entry
  if (priority !== undefined && priority !== null && !Number.isSafeInteger(priority))
    throw wrongLine(number, 'has an invalid priority')
  const request = {
    ...times,
    inputTokens,
    outputTokens,
    hashIds: [
      ...(hashIds as number[]),
      ...Array.from({ length: Math.max(0, missing) }, context.unshared),
    ],
    ...(blockTokens === TRACE_BLOCK_TOKENS ? {} : { blockTokens }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(typeof priority === 'number' ? { priority } : {}),
  }
  return { request, atMs: typeof timestamp === 'number' ? timestamp : null }
}

type Times = Pick<TraceRequest, 'atMs' | 'after' | 'delayMs'>

function timesOf(
  entry: Readonly<Record<string, unknown>>,
  number: number,
  { sessions, before }: LineContext,
): Times {
  const { timestamp, delay } = entry
  const session = sessionOf(entry, number)
  const isTime = (value: unknown): value is number => typeof value === 'number' && value >= 0
  const turn = session === undefined ? undefined : sessions.get(session)
  if (delay !== undefined && delay !== null) {
    if (!isTime(delay)) throw wrongLine(number, 'has an invalid delay')
    if (turn !== undefined) return { atMs: before?.atMs ?? 0, after: turn.index, delayMs: delay }
    if (timestamp === undefined) return { atMs: (before?.atMs ?? 0) + delay }
  }
  if (isTime(timestamp)) {
    if (turn === undefined || turn.atMs === null) return { atMs: timestamp }
    if (timestamp < turn.atMs) throw wrongLine(number, 'comes before the turn that it follows')
    return { atMs: timestamp, after: turn.index, delayMs: timestamp - turn.atMs }
  }
  if (timestamp === undefined && turn !== undefined)
    return { atMs: before?.atMs ?? 0, after: turn.index, delayMs: 0 }
  throw wrongLine(number, 'has no timestamp')
}

function sessionOf(
  { session_id: session }: Readonly<Record<string, unknown>>,
  number: number,
): string | undefined {
  if (session === undefined || session === null) return undefined
  if (typeof session === 'string' || typeof session === 'number') return String(session)
  throw wrongLine(number, 'has an invalid session_id')
}

function parseJson(line: string, number: number): Readonly<Record<string, unknown>> {
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch (cause) {
    throw wrongLine(number, 'is not JSON', cause)
  }
  return isRecord(entry) ? entry : {}
}

/** The same format again; a block size other than 512 is said in each line. */
export function formatMooncake(requests: readonly TraceRequest[]): string {
  const lines = requests.map((request) => {
    const { atMs, inputTokens, outputTokens, hashIds, blockTokens, sessionId, priority, after } =
      request
    const isTurn = after !== undefined
    return JSON.stringify({
      ...(isTurn ? { delay: request.delayMs ?? 0 } : { timestamp: Math.round(atMs * 1000) / 1000 }),
      input_length: inputTokens,
      output_length: outputTokens,
      hash_ids: hashIds,
      ...(sessionId === undefined ? {} : { session_id: sessionId }),
      ...(blockTokens === undefined ? {} : { block_size: blockTokens }),
      ...(priority === undefined ? {} : { priority }),
    })
  })
  return lines.map((line) => `${line}\n`).join('')
}
