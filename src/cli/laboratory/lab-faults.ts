/**
 * What goes wrong in a run: a file with a schedule, or how many of each, drawn from a seed.
 */
import { readFileSync } from 'node:fs'
import { parse as parseYaml } from 'yaml'
import { isRecord } from '../../base/index.ts'
import { drawFaults } from '../../sim/index.ts'
import type { FaultEvent, NetworkFaults } from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import { numberOf, parsePairs, refusal } from './lab-pairs.ts'

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

export interface LabFaults {
  readonly faults: readonly FaultEvent[]
  readonly network: Partial<NetworkFaults>
}

interface FaultScope {
  readonly workers: number
  readonly durationMs: number
  readonly seed: number
}

/** `deaths=3,slow=1,event-loss=0.01`, or a file of JSON or YAML with `faults` and `network`. */
export function labFaults(given: Flags[string], scope: FaultScope): LabFaults {
  if (given === undefined) return { faults: [], network: {} }
  const text = String(given)
  if (!text.includes('=')) return readFaults(text)
  const names = [...DRAWN, ...Object.keys(NETWORK), 'restart', 'seed']
  const pairs = parsePairs('--faults', text, names)
  const value = (name: string): number => numberOf(`--faults ${name}`, pairs.get(name) ?? 0)
  const network = Object.entries(NETWORK)
    .filter(([short]) => pairs.has(short))
    .map(([short, long]) => [long, value(short)] as const)
  const seed = pairs.has('seed') ? value('seed') : scope.seed
  const counts = Object.fromEntries(DRAWN.map((name) => [name, value(name)]))
  const restart = pairs.has('restart') ? { restartMs: value('restart') } : {}
  return {
    faults: drawFaults({ ...scope, seed, ...counts, ...restart }),
    network: Object.fromEntries(network),
  }
}

function readFaults(path: string): LabFaults {
  let read: unknown
  try {
    read = parseYaml(readFileSync(path, 'utf8'))
  } catch {
    throw refusal('--faults', `${path}: not readable as JSON or YAML`)
  }
  if (!isRecord(read)) throw refusal('--faults', `${path}: expected an object with faults, network`)
  const { faults = [], network = {} } = read
  if (!Array.isArray(faults) || !isRecord(network))
    throw refusal('--faults', `${path}: expected a list 'faults' and an object 'network'`)
  return { faults: faults as FaultEvent[], network: network as Partial<NetworkFaults> }
}
