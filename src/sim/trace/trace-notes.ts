/**
 * What a reader of a report should know of the requests that it is about: where a trace says less, or something else, than
 * it seems to.
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
    `all ${own.length} come at one time: where the trace has no times, --concurrency says how many at once`,
  ]
}

/** Ids behind the end of a prompt: they are taken to stand for more tokens than they do. */
function idNotes(requests: readonly TraceRequest[]): string[] {
  const odd = requests.filter(
    ({ inputTokens, hashIds, blockTokens = TRACE_BLOCK_TOKENS }) =>
      hashIds.length > Math.ceil(inputTokens / blockTokens),
  ).length
  if (odd === 0) return []
  return [`${odd} prompts have more hash_ids than they have blocks: is --block-size right?`]
}
