/**
 * Replays a workload against a subject and times each request: its query, its stores, its removals.
 *
 * Inputs are copied to a separate buffer outside the timed part, as a decoder would provide them.
 */
import { performance } from 'node:perf_hooks'
import { createDraw } from './draw.ts'
import type { Subject } from './subject.ts'
import { GROUP_BLOCKS } from './workload.ts'
import type { Chains, Request } from './workload.ts'

export class Stretch {
  #buffer = new Uint32Array(1 << 20)

  /** Hashes of whole groups in a separate scratch buffer, as a decoder would provide them. */
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

const draw = createDraw()
function shuffle(pairs: Uint32Array): void {
  for (let i = (pairs.length >> 1) - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1))
    for (const half of [0, 1]) {
      const kept = pairs[2 * i + half] as number
      pairs[2 * i + half] = pairs[2 * j + half] as number
      pairs[2 * j + half] = kept
    }
  }
}

export interface Figures {
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

export interface ReplayOptions {
  /** Blocks of each event; 0: a request is one event. */
  readonly eventBlocks: number
  readonly removal: string
  readonly hasFind: boolean
}

export function replay(
  subject: Subject,
  requests: readonly Request[],
  chains: Chains,
  options: ReplayOptions,
): Figures {
  const { eventBlocks, removal, hasFind } = options
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
    if (hasFind) {
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
      removal === 'descending'
        ? query.of(chains, request.removed, 'backward')
        : removal === 'random'
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
export function fastest(rounds: readonly Figures[]): Figures {
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

export function rowOf(f: Figures, bytesPerEntry: number): Record<string, number> {
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
