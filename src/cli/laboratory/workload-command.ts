/**
 * `baton workload`: requests from a seed, as a trace that `replay`, `bench` and others read.
 */
import { createWorkload, formatMooncake, idealReuse } from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, writeText } from './lab-output.ts'
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

export function runWorkload(kind: string, flags: Flags): number {
  checkOutputs(flags, 'out')
  const pairs = PAIRS.flatMap((name) =>
    flags[name] === undefined ? [] : [`${name}=${String(flags[name])}`],
  )
  const requests = createWorkload(workloadOf([kind, ...pairs].join(',')))
  writeText(String(flags['out'] ?? '-'), formatMooncake(requests))
  const mean = (pick: (request: (typeof requests)[number]) => number): string =>
    (requests.reduce((sum, request) => sum + pick(request), 0) / requests.length).toFixed(0)
  console.error(
    `${requests.length} requests, ${mean(({ inputTokens }) => inputTokens)} tokens in and ${mean(({ outputTokens }) => outputTokens)} out on average, ${(100 * idealReuse(requests)).toFixed(1)} % of the blocks seen before`,
  )
  return 0
}
