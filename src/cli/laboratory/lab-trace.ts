/**
 * Determines the requests of a run: from a file, or from a workload that is made from a seed.
 */
import {
  createWorkload,
  TRACE_FORMATS,
  WORKLOAD_ARRIVALS,
  WORKLOAD_KINDS,
} from '../../sim/index.ts'
import type {
  TraceFormat,
  WorkloadArrivals,
  WorkloadKind,
  WorkloadOptions,
} from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import type { TraceSpec } from './lab-cell.ts'
import { aboveZero, numberOf, parsePairs, refusal, wholeOf } from './lab-pairs.ts'

const PREFIX = 'workload:'
const NAMES = {
  requests: 'requests',
  rate: 'requestsPerSecond',
  seed: 'seed',
  input: 'inputTokens',
  output: 'outputTokens',
  groups: 'groups',
  turns: 'turns',
  think: 'thinkMs',
} as const

/** Parses `trace.jsonl`, `-`, or `workload:chat,requests=1000,rate=5,seed=1`. */
export function traceSpec(given: string, flags: Flags): TraceSpec {
  const { format, blockSize, limit, speedup, spread } = flags
  const options = {
    ...(format === undefined ? {} : { format: formatOf(String(format)) }),
    ...(blockSize === undefined ? {} : { blockTokens: wholeOf('--block-size', blockSize, 1) }),
    ...(limit === undefined ? {} : { limit: wholeOf('--limit', limit, 1) }),
    ...(speedup === undefined ? {} : { arrivalSpeedup: aboveZero('--speedup', speedup) }),
    ...(spread === true ? { spread: true } : {}),
  }
  if (!given.startsWith(PREFIX)) return { path: given, options }
  return { workload: workloadOf(given.slice(PREFIX.length)), options }
}

/** Describes the requests for the reader of a report. */
export function describeTrace({ path, workload, options }: TraceSpec, requests: number): string {
  const { kind, ...drawn } = workload ?? {}
  const told = Object.entries(drawn).map(([name, value]) => `${name} ${value}`)
  const source = path === undefined ? `workload ${kind} (${told.join(', ')})` : `trace ${path}`
  const { arrivalSpeedup = 1, spread = false } = options
  const faster = arrivalSpeedup === 1 ? '' : `, arrivals ${arrivalSpeedup} times as fast`
  const even = spread ? ', requests of the same timestamp spread evenly until the next one' : ''
  return `${requests} requests of ${source}${faster}${even}`
}

export function workloadOf(text: string): WorkloadOptions {
  const [name = '', ...rest] = text.split(',')
  const kinds: readonly string[] = WORKLOAD_KINDS
  const isArrivals = (WORKLOAD_ARRIVALS as readonly string[]).includes(name)
  if (!isArrivals && !kinds.includes(name))
    throw refusal(
      'workload',
      `'${name}' is invalid: expected one of ${[...kinds, ...WORKLOAD_ARRIVALS].join(', ')}`,
    )
  const pairs = parsePairs('workload', rest.join(','), ['arrivals', ...Object.keys(NAMES)])
  const numbers = Object.entries(NAMES).flatMap(([short, long]) => {
    const value = pairs.get(short)
    if (value === undefined) return []
    return [[long, numberFor(short, value)] as const]
  })
  const options: WorkloadOptions = {
    kind: (isArrivals ? 'random' : name) as WorkloadKind,
    arrivals: (pairs.get('arrivals') ?? (isArrivals ? name : 'poisson')) as WorkloadArrivals,
    requests: 1000,
    requestsPerSecond: 5,
    ...Object.fromEntries(numbers),
  }
  // An unknown arrival process is reported here, before anything is started.
  createWorkload({ ...options, requests: 1 })
  return options
}

function numberFor(name: string, value: string): number {
  const flag = `workload: ${name}`
  if (name === 'seed') return wholeOf(flag, value)
  if (name === 'requests' || name === 'groups') return wholeOf(flag, value, 1)
  return name === 'think' ? numberOf(flag, value) : aboveZero(flag, value)
}

function formatOf(name: string): TraceFormat {
  const known: readonly string[] = TRACE_FORMATS
  if (known.includes(name)) return name as TraceFormat
  throw refusal('--format', `'${name}' is invalid: expected one of ${known.join(', ')}`)
}
