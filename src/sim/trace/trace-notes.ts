/**
 * Notes for the reader of a report about the requests: where a trace contains less, or something else, than it seems
 * to.
 */
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

export function traceNotes(
  requests: readonly TraceRequest[],
  concurrency: number | null,
): readonly string[] {
  return [...timeNotes(requests, concurrency), ...idNotes(requests)]
}

function timeNotes(requests: readonly TraceRequest[], concurrency: number | null): string[] {
  const own = requests.filter(({ after }) => after === undefined)
  if (concurrency !== null || own.length < 2 || own.some(({ atMs }) => atMs !== own[0]!.atMs))
    return []
  return [
    `all ${own.length} requests have the same time: if the trace has no times, use --concurrency`,
  ]
}

/** Ids after the end of a prompt: they are assumed to stand for more tokens than they do. */
function idNotes(requests: readonly TraceRequest[]): string[] {
  const odd = requests.filter(
    ({ inputTokens, hashIds, blockTokens = TRACE_BLOCK_TOKENS }) =>
      hashIds.length > Math.ceil(inputTokens / blockTokens),
  ).length
  if (odd === 0) return []
  return [`${odd} prompts have more hash_ids than blocks: check --block-size`]
}
