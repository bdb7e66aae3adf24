/**
 * Baton's own log as a trace: the lines `request ended`, at the arrival time of each request.
 *
 * A log has lengths, not prompts. Turns of one session are assumed to start with the previous prompt, as far as both
 * go; everything else is unique.
 */
import { entryOf, isTokenCount, wrongLine } from './trace-line.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

export function parseRequestLog(lines: readonly string[], limit: number): TraceRequest[] {
  const ended: { atMs: number; inputTokens: number; outputTokens: number; sessionId: unknown }[] =
    []
  for (const [i, line] of lines.entries()) {
    if (!line.includes('request ended')) continue
    const entry = entryOf(line, i + 1)
    const { time, durationMs, promptTokens, completionTokens, sessionId } = entry
    if (entry['msg'] !== 'request ended') continue
    if (typeof time !== 'number' || typeof durationMs !== 'number')
      throw wrongLine(i + 1, 'has no time and durationMs')
    if (!isTokenCount(promptTokens) || !isTokenCount(completionTokens)) continue
    ended.push({
      atMs: time - durationMs,
      inputTokens: promptTokens,
      outputTokens: completionTokens,
      sessionId,
    })
  }
  ended.sort((a, b) => a.atMs - b.atMs)
  const startMs = ended[0]?.atMs ?? 0
  const latest = new Map<string, readonly number[]>()
  let nextId = 0
  return ended.slice(0, Math.min(limit, ended.length)).map((entry) => {
    const { atMs, inputTokens, outputTokens } = entry
    const sessionId = typeof entry.sessionId === 'string' ? entry.sessionId : null
    const before = (sessionId === null ? undefined : latest.get(sessionId)) ?? []
    const blocks = Math.ceil(inputTokens / TRACE_BLOCK_TOKENS)
    const hashIds = Array.from({ length: blocks }, (_, j) => before[j] ?? nextId++)
    if (sessionId !== null) latest.set(sessionId, hashIds)
    return {
      atMs: atMs - startMs,
      inputTokens,
      outputTokens,
      hashIds,
      ...(sessionId === null ? {} : { sessionId }),
    }
  })
}
