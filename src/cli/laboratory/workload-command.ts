/**
 * `baton workload`: generates requests from a seed, as a trace for `replay`, `bench` and other tools.
 */
import { createWorkload, formatMooncake, idealReuse } from '../../sim/index.ts'
import type { TraceRequest } from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, writePieces } from './lab-output.ts'
import { workloadOf } from './lab-trace.ts'

const PAIRS = [
  'arrivals',
  'requests',
  'rate',
  'seed',
  'input',
  'output',
  'groups',
  'turns',
  'think',
] as const

/** Requests written at a time: a large workload is longer than a JavaScript string may be. */
const PIECE_REQUESTS = 10_000

function* piecesOf(requests: readonly TraceRequest[]): Generator<string> {
  for (let from = 0; from < requests.length; from += PIECE_REQUESTS)
    yield formatMooncake(requests.slice(from, from + PIECE_REQUESTS))
}

export function runWorkload(kind: string, flags: Flags): number {
  checkOutputs(flags, 'out')
  const pairs = PAIRS.flatMap((name) =>
    flags[name] === undefined ? [] : [`${name}=${String(flags[name])}`],
  )
  const requests = createWorkload(workloadOf([kind, ...pairs].join(',')))
  writePieces(String(flags['out'] ?? '-'), piecesOf(requests))
  const mean = (pick: (request: (typeof requests)[number]) => number): string =>
    (requests.reduce((sum, request) => sum + pick(request), 0) / requests.length).toFixed(0)
  console.error(
    `${requests.length} requests, mean ${mean(({ inputTokens }) => inputTokens)} input tokens and ${mean(({ outputTokens }) => outputTokens)} output tokens, ${(100 * idealReuse(requests)).toFixed(1)} % of the blocks repeat earlier ones`,
  )
  return 0
}
