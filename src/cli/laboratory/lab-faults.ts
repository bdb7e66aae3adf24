/**
 * Faults of a simulated run: a file with a schedule, or counts of faults that are drawn from a seed.
 */
import { parse as parseYaml } from 'yaml'
import { isRecord } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import type { FaultDraw, FaultEvent, NetworkFaults } from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import { numberOf, parsePairs, refusal, wholeOf } from './lab-pairs.ts'

const DRAWN = ['deaths', 'slow', 'partitions', 'breaks', 'drains'] as const
const NETWORK = {
  delay: 'delayMs',
  jitter: 'jitterMs',
  loss: 'messageLoss',
  'event-loss': 'eventLoss',
  'event-duplicate': 'eventDuplicate',
  'event-delay': 'eventDelayMs',
  'control-duplicate': 'controlDuplicate',
  'kv-break': 'kvBreak',
  lease: 'leaseMs',
  silence: 'silenceMs',
  reconnect: 'reconnectMs',
} as const

/** How many faults of each kind are drawn; without `seed` the seed of the run is used. */
export type DrawnFaults = Omit<FaultDraw, 'seed' | 'workers' | 'durationMs'> & {
  readonly seed?: number
}

interface LabFaults {
  /** The written schedule; empty when faults are drawn. */
  readonly faults: readonly FaultEvent[]
  readonly drawn: DrawnFaults | null
  readonly network: Partial<NetworkFaults>
}

const EVENTS_MAX = 100_000

/** Parses `deaths=3,slow=1,event-loss=0.01`, or the path of a JSON or YAML file with `faults` and `network`. */
export function labFaults(given: Flags[string]): LabFaults {
  if (given === undefined) return { faults: [], drawn: null, network: {} }
  const text = String(given)
  if (!text.includes('=')) return readFaults(text)
  const names = [...DRAWN, ...Object.keys(NETWORK), 'restart', 'seed']
  const pairs = parsePairs('--faults', text, names)
  const value = (name: string): number => numberOf(`--faults ${name}`, pairs.get(name) ?? 0)
  const network = Object.entries(NETWORK)
    .filter(([short]) => pairs.has(short))
    .map(([short, long]) => [long, value(short)] as const)
  const counts = DRAWN.filter((name) => pairs.has(name)).map(
    (name) => [name, countOf(name, pairs.get(name))] as const,
  )
  const restart = pairs.has('restart') ? { restartMs: value('restart') } : {}
  const seed = pairs.has('seed') ? { seed: wholeOf('--faults seed', pairs.get('seed')) } : {}
  return {
    faults: [],
    drawn: counts.length === 0 ? null : { ...Object.fromEntries(counts), ...restart, ...seed },
    network: Object.fromEntries(network),
  }
}

function countOf(name: string, given: unknown): number {
  const count = wholeOf(`--faults ${name}`, given)
  if (count <= EVENTS_MAX) return count
  throw refusal(`--faults ${name}`, `${count} is invalid: expected at most ${EVENTS_MAX}`)
}

/** For the head of a report; empty: no faults are injected. */
export function describeFaults(
  { faults, drawn, network }: LabFaults,
  seed: number,
): readonly string[] {
  const count = (kind: string): number => faults.filter((event) => event.kind === kind).length
  const written = [...new Set(faults.map(({ kind }) => kind))].map(
    (kind) => `${count(kind)} × ${kind}`,
  )
  const { seed: own = seed, ...counts } = drawn ?? {}
  const all = [
    ...written,
    ...pairsOf(counts),
    ...(drawn === null ? [] : [`drawn by seed ${own}`]),
    ...pairsOf(network),
  ]
  return all.length === 0 ? [] : [`faults: ${all.join(', ')}`]
}

function pairsOf(values: object): string[] {
  return Object.entries(values).map(([name, value]) => `${name} ${String(value)}`)
}

function readFaults(path: string): LabFaults {
  let read: unknown
  try {
    read = parseYaml(readSmallFile(path))
  } catch {
    throw refusal('--faults', `${path}: not readable as JSON or YAML`)
  }
  if (!isRecord(read)) throw refusal('--faults', `${path}: expected an object with faults, network`)
  const { faults = [], network = {}, ...rest } = read
  const odd = Object.keys(rest)[0]
  if (odd !== undefined)
    throw refusal('--faults', `${path}: unknown name '${odd}': expected faults or network`)
  if (!Array.isArray(faults) || !isRecord(network))
    throw refusal('--faults', `${path}: expected a list 'faults' and an object 'network'`)
  return {
    faults: faults as FaultEvent[],
    drawn: null,
    network: network as Partial<NetworkFaults>,
  }
}
