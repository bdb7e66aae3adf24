/**
 * Traces in the format of the public Mooncake ones: one JSON object per line, with `timestamp` (ms), `input_length`,
 * `output_length` and `hash_ids`. Dynamo's extensions are supported: a line with `session_id` and `delay` is a turn
 * that starts `delay` ms after the end of the session's previous turn; without a session `delay` counts from the
 * previous line. A turn with a time instead keeps its distance to the previous turn. `block_size` is the number of
 * tokens per id; `input_length` or `hash_ids` may be missing, and tokens beyond the ids are shared with no other
 * request. Lines with an `output_length` of 0 are ignored.
 */
import { TraceIds } from './trace-ids.ts'
import { entryOf, isTime, isTokenCount, noCount, wrongLine } from './trace-line.ts'
import type { TraceEntry } from './trace-line.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

export function parseMooncake(
  lines: readonly string[],
  limit: number,
  blockTokens = TRACE_BLOCK_TOKENS,
): TraceRequest[] {
  const requests: TraceRequest[] = []
  const sessions = new Map<string, LatestTurn>()
  const ids = new TraceIds()
  for (const [i, line] of lines.entries()) {
    if (requests.length >= limit) break
    if (line.trim() === '') continue
    const context = { blockTokens, sessions, before: requests.at(-1), ids }
    const parsed = parseLine(line, i + 1, context)
    if (parsed === null) continue
    const { request, atMs } = parsed
    if (request.sessionId !== undefined)
      sessions.set(request.sessionId, { index: requests.length, atMs })
    requests.push(request)
  }
  return requests
}

interface LatestTurn {
  readonly index: number
  /** Null: not in the trace. */
  readonly atMs: number | null
}

interface LineContext {
  readonly blockTokens: number
  readonly sessions: ReadonlyMap<string, LatestTurn>
  readonly before: TraceRequest | undefined
  readonly ids: TraceIds
}

/** Null: a request without an answer, which has failed. */
function parseLine(
  line: string,
  number: number,
  context: LineContext,
): { readonly request: TraceRequest; readonly atMs: number | null } | null {
  const entry = entryOf(line, number)
  if (entry['output_length'] === 0) return null
  const times = timesOf(entry, number, context)
  const { output_length: outputTokens, timestamp } = entry
  const sessionId = sessionOf(entry, number)
  const hashIds = context.ids.read(entry['hash_ids'] ?? [])
  if (hashIds === null) throw wrongLine(number, 'has invalid hash_ids')
  const blockTokens = entry['block_size'] ?? context.blockTokens
  if (!isTokenCount(blockTokens)) throw wrongLine(number, 'has an invalid block_size')
  const inputTokens = entry['input_length'] ?? hashIds.length * blockTokens
  if (!isTokenCount(inputTokens)) throw wrongLine(number, noCount('input_length'))
  if (!isTokenCount(outputTokens)) throw wrongLine(number, noCount('output_length'))
  const priority = entry['priority'] ?? undefined
  if (priority !== undefined && !Number.isSafeInteger(priority))
    throw wrongLine(number, 'has an invalid priority')
  const request = {
    ...times,
    inputTokens,
    outputTokens,
    hashIds: context.ids.filledUp(hashIds, inputTokens, blockTokens),
    ...(blockTokens === TRACE_BLOCK_TOKENS ? {} : { blockTokens }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(typeof priority === 'number' ? { priority } : {}),
  }
  return { request, atMs: typeof timestamp === 'number' ? timestamp : null }
}

type Times = Pick<TraceRequest, 'atMs' | 'after' | 'delayMs'>

function timesOf(entry: TraceEntry, number: number, { sessions, before }: LineContext): Times {
  const [timestamp, delay] = [entry['timestamp'] ?? undefined, entry['delay'] ?? undefined]
  const session = sessionOf(entry, number)
  const turn = session === undefined ? undefined : sessions.get(session)
  if (delay !== undefined) {
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
  throw wrongLine(
    number,
    timestamp === undefined
      ? 'has no timestamp'
      : 'has a timestamp that is not a number of milliseconds from 0 to 8.64e15',
  )
}

function sessionOf({ session_id: session }: TraceEntry, number: number): string | undefined {
  if (session === undefined || session === null) return undefined
  if (typeof session === 'string' || typeof session === 'number') return String(session)
  throw wrongLine(number, 'has an invalid session_id')
}

/** Writes the same format; a block size other than 512 is written in each line. */
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
