/**
 * The subjects of the index benchmark: the index, and a radix tree of `Map`s, behind one interface.
 */
import { EventPrefixIndex, PrefixMatches } from '../../src/kv/index.ts'
import { MapRadixTree } from './map-radix-tree.ts'

export interface Subject {
  readonly name: string
  /** Converts hashes to the subject's input; outside the timed part. */
  readonly prepare?: (hashes: Uint32Array) => void
  find(hashes: Uint32Array): void
  store(worker: number, parent: [number, number] | null, hashes: Uint32Array): void
  remove(worker: number, hashes: Uint32Array): void
  /** Depth of the best worker in the last answer. */
  best(): number
  entries(): number
  bytes(): number | null
  /** Further information about the subject. */
  describe?(): string
  /** (worker, score) of the last answer. */
  scores(): Iterable<[number, number]>
}

export function typedArrays(workers: number): Subject {
  const index = new EventPrefixIndex()
  const matches = new PrefixMatches(workers)
  const noHashes = new Uint32Array(0)
  return {
    name: 'EventPrefixIndex',
    find: (hashes) => index.find(hashes, matches),
    store: (worker, parent, hashes) => {
      const outcome = index.apply(worker, {
        kind: 'stored',
        parent,
        hashes,
        localHashes: noHashes,
        tier: 'device',
      })
      if (outcome !== 'applied') throw new Error(outcome)
    },
    remove: (worker, hashes) => {
      const outcome = index.apply(worker, { kind: 'removed', hashes, tier: 'device' })
      if (outcome !== 'applied') throw new Error(outcome)
    },
    best: () => {
      let best = 0
      for (let i = 0; i < matches.count; i++) {
        best = Math.max(best, matches.device[matches.holders[i] as number] as number)
      }
      return best
    },
    entries: () => index.stats().entries,
    bytes: () => index.stats().bytes,
    describe: () => {
      const { blocks, parts, scans } = index.device
      const { runs, anchors } = parts.blocks
      return `runs ${runs.live}, anchors ${anchors.count}, blocks ${blocks}, scans ${scans}`
    },
    *scores() {
      for (let i = 0; i < matches.count; i++) {
        const worker = matches.holders[i] as number
        yield [worker, matches.device[worker] as number]
      }
    },
  }
}

/** Hashes are passed as BigInt, made once per block and outside the timed part. */
export function mapTree(workers: number): Subject {
  const tree = new MapRadixTree(workers)
  let prepared: bigint[] = []
  let found = new Map<number, number>()
  const convert = (hashes: Uint32Array): bigint[] =>
    Array.from({ length: hashes.length >> 1 }, (_, i) => pairToBigint(hashes, i))
  return {
    name: 'Map radix tree',
    prepare: (hashes) => {
      prepared = convert(hashes)
    },
    find: () => {
      found = tree.find(prepared)
    },
    store: (worker, parent) =>
      tree.store(
        worker,
        parent === null ? null : (BigInt(parent[1]) << 32n) | BigInt(parent[0]),
        prepared,
      ),
    remove: (worker) => tree.remove(worker, prepared),
    best: () => Math.max(0, ...found.values()),
    entries: () => tree.entries,
    bytes: () => null,
    scores: () => found,
  }
}

function pairToBigint(hashes: Uint32Array, i: number): bigint {
  return (BigInt(hashes[2 * i + 1] as number) << 32n) | BigInt(hashes[2 * i] as number)
}
