/**
 * Validates what an engine reports about its blocks and load before it is sent to others: an invalid event in a frame
 * would make the peer close the connection with every stream on it.
 *
 * Only the form of a single event is checked here, including that a chain does not repeat a block, which an index
 * could not store. Whether events are consistent (a parent that was never stored) is checked by the conformance kit;
 * the routers' indexes tolerate such events.
 */
import { isU32 } from '../../base/index.ts'
import type { KvEvent, LoadReport } from '../../kv/index.ts'
import type { EngineConfig } from '../../request/index.ts'
import { quoted, shown } from '../shown.ts'
import { isTypedArray } from '../typed-array.ts'

/** Limit of one event: a million blocks (two halves each). */
const HALVES_MAX = 2 ** 21
const TIERS: ReadonlySet<unknown> = new Set(['device', 'host', 'disk'])
const LOAD_FIELDS = [
  'dpRank',
  'activeBlocks',
  'totalBlocks',
  'runningRequests',
  'queuedRequests',
  'prefillTokensInFlight',
] as const satisfies readonly (keyof LoadReport)[]

/** Routers send nothing to a rank that the card does not name, and a worker keeps the blocks of each rank. */
export function rankFault(
  dpRank: number,
  {
    dataParallelStartRank: start = 0,
    dataParallelSize: size = 1,
  }: Pick<EngineConfig, 'dataParallelStartRank' | 'dataParallelSize'>,
): string | null {
  if (isU32(dpRank) && dpRank >= start && dpRank < start + size) return null
  const known = size === 1 ? `rank ${start}` : `ranks ${start} to ${start + size - 1}`
  return `rank ${quoted(dpRank)}: the engine's config names ${known} (dataParallelStartRank, dataParallelSize)`
}

/** Of an event that is the worker's own copy. */
export function eventFault(event: KvEvent): string | null {
  switch (event.kind) {
    case 'cleared':
      return null
    case 'removed':
      return tierFault(event.tier) ?? hashesFault(event.hashes)
    case 'stored':
      return storedFault(event)
    default:
      return `an event of kind '${shown((event as { kind?: unknown }).kind)}'`
  }
}

/** Of a report that is the worker's own copy. */
export function reportFault(report: LoadReport): string | null {
  for (const field of LOAD_FIELDS) {
    if (!isU32(report[field])) return `${field} is ${quoted(report[field])}`
  }
  return null
}

function storedFault({
  parent,
  hashes,
  localHashes,
  tier,
}: Extract<KvEvent, { kind: 'stored' }>): string | null {
  const found = tierFault(tier) ?? hashesFault(hashes)
  if (found !== null) return found
  if (!isTypedArray(localHashes, 'Uint32Array')) return '`localHashes` is not a Uint32Array'
  if (localHashes.length !== 0 && localHashes.length !== hashes.length) {
    return 'local hashes are not one per block'
  }
  const isPair =
    parent === null || (Array.isArray(parent) && parent.length === 2 && parent.every(isU32))
  if (!isPair) return '`parent` is neither null nor a pair of u32'
  // Engine hashes are translated to a chain of local hashes.
  return localHashes.length === 0 ? repeatFault(hashes) : null
}

function repeatFault(hashes: Uint32Array): string | null {
  const count = hashes.length >> 1
  if (count === 1) return null
  const lowHalves = new Set<number>()
  for (let i = 0; i < hashes.length; i += 2) lowHalves.add(hashes[i] as number)
  if (lowHalves.size === count) return null
  // Two hashes that share only one half are valid.
  const pairs = new Set<string>()
  for (let i = 0; i < hashes.length; i += 2) pairs.add(`${hashes[i]} ${hashes[i + 1]}`)
  return pairs.size === count ? null : 'a stored event that names a block twice'
}

function tierFault(tier: unknown): string | null {
  return TIERS.has(tier) ? null : `tier '${shown(tier)}'`
}

function hashesFault(hashes: Uint32Array): string | null {
  if (!isTypedArray(hashes, 'Uint32Array')) return '`hashes` is not a Uint32Array'
  const { length } = hashes
  return length === 0 || length % 2 !== 0 || length > HALVES_MAX
    ? `${length} halves of hashes`
    : null
}
