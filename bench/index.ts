/**
 * How fast is the prefix index? Replays a trace against it and against a `Map`-based radix tree in the same run.
 *
 *   node --expose-gc --import tsx bench/index.ts TRACE [--workers 8,64,1000] [--policy hash,sticky]
 *     [--event-blocks N] [--removal descending|ascending|random] [--no-find] [--no-map] [--verify] [--repeat N] [--best]
 *
 * TRACE: lines of `{"hash_ids": [...]}`; each id is 32 blocks. block-ops = blocks queried + stored + removed.
 * `--best` takes for every single request its fastest round, instead of the median of whole rounds: for a machine
 *   that others use as well.
 * `--verify` prints the digest of all decisions and the checksum of all scores (slow).
 */
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { EventPrefixIndex, PrefixMatches } from '../src/kv/index.ts'
import { MapRadixTree } from './index/map-radix-tree.ts'
import { digestOf, GROUP_BLOCKS, playTrace, readTrace, splitmix64 } from './index/workload.ts'
import type { Chains, Request } from './index/workload.ts'

const WORKER_BLOCKS: Readonly<Record<number, number>> = { 8: 65_536, 64: 16_384, 1000: 8192 }

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    workers: { type: 'string', default: '8,64,1000' },
    policy: { type: 'string', default: 'hash,sticky' },
    'event-blocks': { type: 'string', default: '0' },
    removal: { type: 'string', default: 'descending' },
    repeat: { type: 'string', default: '3' },
    best: { type: 'boolean', default: false },
    'no-find': { type: 'boolean', default: false },
    'no-map': { type: 'boolean', default: false },
    verify: { type: 'boolean', default: false },
  },
})

interface Subject {
  readonly name: string
  /** Turns hashes into what the subject takes; outside the timer. */
  readonly prepare?: (hashes: Uint32Array) => void
  find(hashes: Uint32Array): void
  store(worker: number, parent: [number, number] | null, hashes: Uint32Array): void
  remove(worker: number, hashes: Uint32Array): void
  /** Depth of the best holder in the last answer. */
  best(): number
  entries(): number
  bytes(): number | null
  /** (worker, score) of the last answer. */
  scores(): Iterable<[number, number]>
}

function typedArrays(workers: number): Subject & { readonly index: EventPrefixIndex } {
  const index = new EventPrefixIndex()
  const matches = new PrefixMatches(workers)
  const noHashes = new Uint32Array(0)
  return {
    name: 'EventPrefixIndex',
    index,
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
    *scores() {
      for (let i = 0; i < matches.count; i++) {
        const worker = matches.holders[i] as number
        yield [worker, matches.device[worker] as number]
      }
    },
  }
}

/** Numbers are given as BigInt, made once per block and outside the timer. */
function mapTree(workers: number): Subject {
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

class Stretch {
  #buffer = new Uint32Array(1 << 20)

  /** Hashes of whole groups in a scratch buffer of their own, as a decoder would have made them. */
  of(chains: Chains, groups: Int32Array, order: 'forward' | 'backward' | 'random'): Uint32Array {
    const size = 2 * GROUP_BLOCKS
    while (this.#buffer.length < size * groups.length) {
      this.#buffer = new Uint32Array(2 * this.#buffer.length)
    }
    const target = this.#buffer.subarray(0, size * groups.length)
    groups.forEach((group, g) => {
      const source = chains.sequence.subarray(size * group, size * (group + 1))
      if (order !== 'backward') {
        target.set(source, size * g)
        return
      }
      for (let j = 0; j < GROUP_BLOCKS; j++) {
        target[size * g + 2 * j] = source[2 * (GROUP_BLOCKS - 1 - j)] as number
        target[size * g + 2 * j + 1] = source[2 * (GROUP_BLOCKS - 1 - j) + 1] as number
      }
    })
    if (order === 'random') shuffle(target)
    return target
  }
}

let seed = 1
function shuffle(pairs: Uint32Array): void {
  for (let i = (pairs.length >> 1) - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    const j = Math.floor((seed / 4294967296) * (i + 1))
    for (const half of [0, 1]) {
      const kept = pairs[2 * i + half] as number
      pairs[2 * i + half] = pairs[2 * j + half] as number
      pairs[2 * j + half] = kept
    }
  }
}

interface Figures {
  /** For each request, in ms: its query, all its stores, all its removals. */
  readonly findMs: Float64Array
  readonly storeMs: Float64Array
  readonly removeMs: Float64Array
  readonly readMs: Float64Array
  stallMs: number
  queried: number
  stored: number
  removed: number
}

function replay(subject: Subject, requests: readonly Request[], chains: Chains): Figures {
  const eventBlocks = Number(flags['event-blocks'])
  const query = new Stretch()
  const f: Figures = {
    findMs: new Float64Array(requests.length),
    storeMs: new Float64Array(requests.length),
    removeMs: new Float64Array(requests.length),
    readMs: new Float64Array(requests.length),
    stallMs: 0,
    queried: 0,
    stored: 0,
    removed: 0,
  }
  const timed = (field: Float64Array, number: number, run: () => void): void => {
    const begin = performance.now()
    run()
    const ms = performance.now() - begin
    field[number] = (field[number] as number) + ms
    if (ms > f.stallMs) f.stallMs = ms
  }
  const pieces = (hashes: Uint32Array): Uint32Array[] => {
    if (eventBlocks === 0) return hashes.length === 0 ? [] : [hashes]
    const list: Uint32Array[] = []
    for (let at = 0; at < hashes.length; at += 2 * eventBlocks) {
      list.push(hashes.subarray(at, at + 2 * eventBlocks))
    }
    return list
  }
  requests.forEach((request, number) => {
    const { worker, groups, cachedGroups, bestGroups } = request
    const hashes = query.of(chains, groups, 'forward')
    if (!flags['no-find']) {
      subject.prepare?.(hashes)
      timed(f.findMs, number, () => subject.find(hashes))
      if (subject.best() !== bestGroups * GROUP_BLOCKS) throw new Error(`wrong best at ${number}`)
      f.queried += hashes.length >> 1
    }
    const cut = 2 * GROUP_BLOCKS * cachedGroups
    let parent: [number, number] | null =
      cut === 0 ? null : [hashes[cut - 2] as number, hashes[cut - 1] as number]
    for (const piece of pieces(hashes.subarray(cut))) {
      subject.prepare?.(piece)
      timed(f.storeMs, number, () => subject.store(worker, parent, piece))
      parent = [piece[piece.length - 2] as number, piece[piece.length - 1] as number]
      f.stored += piece.length >> 1
    }
    const gone =
      flags.removal === 'descending'
        ? query.of(chains, request.removed, 'backward')
        : flags.removal === 'random'
          ? query.of(chains, request.removed, 'random')
          : query.of(chains, request.removed.toReversed(), 'forward')
    for (const piece of pieces(gone)) {
      subject.prepare?.(piece)
      timed(f.removeMs, number, () => subject.remove(worker, piece))
      f.removed += piece.length >> 1
    }
  })
  requests.forEach(({ groups }, number) => {
    const hashes = query.of(chains, groups, 'forward')
    subject.prepare?.(hashes)
    const begin = performance.now()
    subject.find(hashes)
    f.readMs[number] = performance.now() - begin
  })
  return f
}

/** The fastest round of every request. */
function fastest(rounds: readonly Figures[]): Figures {
  const least = (field: 'findMs' | 'storeMs' | 'removeMs' | 'readMs'): Float64Array =>
    (rounds[0] as Figures)[field].map((_, i) =>
      Math.min(...rounds.map((round) => round[field][i] as number)),
    )
  return {
    ...(rounds[0] as Figures),
    findMs: least('findMs'),
    storeMs: least('storeMs'),
    removeMs: least('removeMs'),
    readMs: least('readMs'),
    stallMs: Math.min(...rounds.map((round) => round.stallMs)),
  }
}

function rowOf(f: Figures, bytesPerEntry: number): Record<string, number> {
  const sum = (list: Float64Array): number => list.reduce((total, ms) => total + ms, 0)
  const sorted = f.findMs.toSorted()
  const at = (quantile: number): number => 1e6 * (sorted[Math.floor(sorted.length * quantile)] ?? 0)
  const [findMs, storeMs, removeMs] = [sum(f.findMs), sum(f.storeMs), sum(f.removeMs)]
  return {
    'M block-ops/s': (f.queried + f.stored + f.removed) / (findMs + storeMs + removeMs) / 1000,
    'find p50 ns': at(0.5),
    'find p99 ns': at(0.99),
    'find mean ns': (1e6 * findMs) / sorted.length,
    'ns/stored': (1e6 * storeMs) / f.stored,
    'ns/removed': (1e6 * removeMs) / f.removed,
    'r/o find ns': (1e6 * sum(f.readMs)) / sorted.length,
    'B/entry': bytesPerEntry,
    'stall ms': f.stallMs,
  }
}

function checksum(subject: Subject, requests: readonly Request[], chains: Chains): string {
  const query = new Stretch()
  let sum = 0n
  for (const { groups } of requests) {
    subject.find(query.of(chains, groups, 'forward'))
    for (const [worker, score] of subject.scores()) {
      if (score > 0) sum += splitmix64((BigInt(worker) << 32n) | BigInt(score))
    }
  }
  return BigInt.asUintN(64, sum).toString(16).padStart(16, '0')
}

const median = (list: number[]): number =>
  list.toSorted((a, b) => a - b)[list.length >> 1] as number

function heapBytes(): number {
  ;(globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

function measure(create: () => Subject, requests: readonly Request[], chains: Chains): void {
  const rounds: Figures[] = []
  const bytesPerEntry: number[] = []
  let last: Subject | undefined
  // Replayed on a scratch index first, so that the figures are those of a process that has run for a while.
  replay(create(), requests.slice(0, 2000), chains)
  for (let round = 0; round < Number(flags.repeat); round++) {
    last = undefined
    const before = heapBytes()
    const subject = create()
    rounds.push(replay(subject, requests, chains))
    bytesPerEntry.push((subject.bytes() ?? heapBytes() - before) / subject.entries())
    last = subject
  }
  const bytes = median(bytesPerEntry)
  const rows = flags.best
    ? [rowOf(fastest(rounds), bytes)]
    : rounds.map((round) => rowOf(round, bytes))
  const cells = Object.keys(rows[0] ?? {}).map((key) => {
    const value = median(rows.map((row) => row[key] as number))
    return `${key} ${value.toFixed(value < 100 ? 1 : 0)}`
  })
  console.log(`  ${(last?.name ?? '').padEnd(17)} ${cells.join(' | ')}`)
  if (last !== undefined && 'index' in last) {
    const { device } = (last as ReturnType<typeof typedArrays>).index
    const { runs, anchors } = device.parts.blocks
    const counts = `runs ${runs.live}, anchors ${anchors.count}, blocks ${device.blocks}`
    console.log(`    ${counts}, scans ${device.scans}`)
    if (flags.verify) console.log(`    score checksum ${checksum(last, requests, chains)}`)
  }
}

const [tracePath] = positionals
if (tracePath === undefined) throw new Error('usage: bench/index.ts TRACE [flags], see its head')
const trace = readTrace(tracePath)
console.log(
  `node ${process.version}, ${process.arch}; ${flags.best ? 'best' : 'median'} of ${flags.repeat} rounds`,
)
for (const policy of flags.policy.split(',')) {
  for (const workers of flags.workers.split(',').map(Number)) {
    const workerBlocks = WORKER_BLOCKS[workers] ?? 8192
    const requests = playTrace(trace, { workers, workerBlocks, isSticky: policy === 'sticky' })
    console.log(`${policy}, ${workers} workers of ${workerBlocks} blocks`)
    if (flags.verify) console.log(`    op digest ${digestOf(requests, trace.chains)}`)
    measure(() => typedArrays(workers), requests, trace.chains)
    if (!flags['no-map']) measure(() => mapTree(workers), requests, trace.chains)
  }
}
