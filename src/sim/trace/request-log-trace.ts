/**
 * Baton's own log as a trace: the lines `request ended`, at the arrival time of each request.
 *
 * A log has lengths, not prompts. Turns of one session are assumed to start with the previous prompt, as far as both
 * go; everything else is unique. A turn follows the end of the previous one after the logged pause.
 */
import { BatonError } from '../../base/index.ts'
import { entryOf, isTime, isTokenCount, wrongLine } from './trace-line.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

interface EndedRequest {
  readonly atMs: number
  readonly endMs: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly sessionId: unknown
}

export function parseRequestLog(lines: readonly string[], limit: number): TraceRequest[] {
  const ended: EndedRequest[] = []
  for (const [i, line] of lines.entries()) {
    if (!line.includes('request ended')) continue
    const entry = entryOf(line, i + 1)
    const { time, durationMs, promptTokens, completionTokens, sessionId } = entry
    if (entry['msg'] !== 'request ended') continue
    if (!isTime(time) || !isTime(durationMs)) throw wrongLine(i + 1, 'has no time and durationMs')
    if (!isTokenCount(promptTokens) || !isTokenCount(completionTokens)) continue
    ended.push({
      atMs: time - durationMs,
      endMs: time,
      inputTokens: promptTokens,
      outputTokens: completionTokens,
      sessionId,
    })
  }
  if (ended.length === 0)
    throw new BatonError(
      'request.invalid_argument',
      "the log has no line 'request ended' with tokens: start the server with --log-level info",
    )
  ended.sort((a, b) => a.atMs - b.atMs)
  const startMs = ended[0]?.atMs ?? 0
  const latest = new Map<string, LatestTurn>()
  let nextId = 0
  return ended.slice(0, Math.min(limit, ended.length)).map((entry, index) => {
    const { atMs, endMs, inputTokens, outputTokens } = entry
    const sessionId = typeof entry.sessionId === 'string' ? entry.sessionId : null
    const before = sessionId === null ? undefined : latest.get(sessionId)
    const blocks = Math.ceil(inputTokens / TRACE_BLOCK_TOKENS)
    const hashIds = Array.from({ length: blocks }, (_, j) => before?.hashIds[j] ?? nextId++)
    if (sessionId !== null) latest.set(sessionId, { index, endMs, hashIds })
    // Requests of one session may also overlap; then none of them waits for another.
    const isTurn = before !== undefined && before.endMs <= atMs
    return {
      atMs: atMs - startMs,
      inputTokens,
      outputTokens,
      hashIds,
      ...(sessionId === null ? {} : { sessionId }),
      ...(isTurn ? { after: before.index, delayMs: atMs - before.endMs } : {}),
    }
  })
}

interface LatestTurn {
  readonly index: number
  readonly endMs: number
  readonly hashIds: readonly number[]
}
