/**
 * Traces of agents in Dynamo's formats: a graph of requests (`dynamo.agentic_mooncake`), and recordings of its
 * servers (`dynamo.request.trace`).
 *
 * A graph has a header with the tokens per id, then one request per line with its dependencies: it is sent
 * `delay_ms` after another was sent (`dispatch`) or has ended (`completion`), when all of them allow it. Of a
 * recording the lines `request_end` are used; requests of one session keep their distances.
 */
import { isRecord } from '../../base/index.ts'
import { TraceIds } from './trace-ids.ts'
import { entryOf, isTime, isTokenCount, noCount, wrongLine } from './trace-line.ts'
import type { TraceEntry } from './trace-line.ts'
import type { TraceDependency, TraceRequest } from './trace-request.ts'

export function parseAgentic(lines: readonly string[], limit: number): TraceRequest[] {
  const requests: TraceRequest[] = []
  const known = new Map<unknown, number>()
  const ids = new TraceIds()
  let blockTokens = 0
  for (const [i, line] of lines.entries()) {
    if (requests.length >= limit) break
    if (line.trim() === '') continue
    const entry = entryOf(line, i + 1)
    if (blockTokens === 0) {
      const { block_size: size } = entry
      if (!isTokenCount(size)) throw wrongLine(i + 1, 'is no header with a block_size')
      blockTokens = size
      continue
    }
    const { request_id: id, session_id: session, not_before_ms: notBefore = 0 } = entry
    if (!isTime(notBefore)) throw wrongLine(i + 1, 'has an invalid not_before_ms')
    const waitsFor = dependenciesOf(entry, i + 1, known)
    if (id !== undefined && known.has(id))
      throw wrongLine(i + 1, `has the request_id ${JSON.stringify(id)} of a line before it`)
    known.set(id, requests.length)
    const lengths = lengthsOf(entry, i + 1)
    const hashIds = ids.read(entry['hash_ids'])
    if (hashIds === null) throw wrongLine(i + 1, 'has no hash_ids')
    requests.push({
      ...lengths,
      atMs: notBefore,
      hashIds: ids.filledUp(hashIds, lengths.inputTokens, blockTokens),
      blockTokens,
      ...(typeof session === 'string' ? { sessionId: session } : {}),
      ...(waitsFor.length === 0 ? {} : { waitsFor }),
    })
  }
  return requests
}

function dependenciesOf(
  entry: TraceEntry,
  line: number,
  known: ReadonlyMap<unknown, number>,
): TraceDependency[] {
  const { dependencies = [] } = entry
  if (!Array.isArray(dependencies)) throw wrongLine(line, 'has invalid dependencies')
  return dependencies.map((dependency: unknown): TraceDependency => {
    const { request_id: id, trigger, delay_ms: delay = 0 } = isRecord(dependency) ? dependency : {}
    const request = known.get(id)
    if (request === undefined)
      throw wrongLine(line, `depends on ${String(id)}, which is not before it`)
    if (trigger !== 'dispatch' && trigger !== 'completion')
      throw wrongLine(line, 'has a dependency that is neither dispatch nor completion')
    if (!isTime(delay)) throw wrongLine(line, 'has an invalid delay_ms')
    return { request, on: trigger === 'dispatch' ? 'sent' : 'ended', delayMs: delay }
  })
}

export function parseDynamoRecords(lines: readonly string[], limit: number): TraceRequest[] {
  const ended: { readonly line: number; readonly entry: TraceEntry; readonly session: unknown }[] =
    []
  for (const [i, line] of lines.entries()) {
    if (line.trim() === '') continue
    const { event_type: type, request, agent_context: context } = entryOf(line, i + 1)
    if (type !== 'request_end' || !isRecord(request)) continue
    const session = isRecord(context) ? context['session_id'] : undefined
    ended.push({ line: i + 1, entry: request, session })
  }
  const received = ({ line, entry }: (typeof ended)[number]): number => {
    const atMs = entry['request_received_ms']
    if (!isTime(atMs)) throw wrongLine(line, 'has no request_received_ms')
    return atMs
  }
  ended.sort((a, b) => received(a) - received(b))
  const startMs = ended.length === 0 ? 0 : received(ended[0]!)
  const latest = new Map<unknown, { readonly index: number; readonly endMs: number }>()
  const ids = new TraceIds()
  return ended.slice(0, Math.min(limit, ended.length)).map((record, index) => {
    const { line, entry, session } = record
    const replay = isRecord(entry['replay']) ? entry['replay'] : {}
    const { trace_block_size: blockTokens, input_sequence_hashes: hashes } = replay
    if (!isTokenCount(blockTokens) || !Array.isArray(hashes))
      throw wrongLine(line, 'has no replay with trace_block_size and input_sequence_hashes')
    const lengths = lengthsOf({ ...replay, output_length: entry['output_tokens'] }, line)
    const hashIds = ids.read(hashes)
    if (hashIds === null) throw wrongLine(line, 'has invalid input_sequence_hashes')
    const atMs = received(record)
    const before = session === undefined ? undefined : latest.get(session)
    const tookMs = isTime(entry['total_time_ms']) ? entry['total_time_ms'] : 0
    if (session !== undefined) latest.set(session, { index, endMs: atMs + tookMs })
    return {
      ...lengths,
      atMs: atMs - startMs,
      hashIds: ids.filledUp(hashIds, lengths.inputTokens, blockTokens),
      blockTokens,
      ...(typeof session === 'string' ? { sessionId: session } : {}),
      ...(before === undefined
        ? {}
        : { after: before.index, delayMs: Math.max(0, atMs - before.endMs) }),
    }
  })
}

function lengthsOf(entry: TraceEntry, line: number): { inputTokens: number; outputTokens: number } {
  const { input_length: inputTokens, output_length: outputTokens } = entry
  if (!isTokenCount(inputTokens)) throw wrongLine(line, noCount('input length'))
  if (!isTokenCount(outputTokens)) throw wrongLine(line, noCount('output length'))
  return { inputTokens, outputTokens }
}
