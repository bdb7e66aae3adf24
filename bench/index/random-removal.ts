/**
 * Removals of single blocks in random order, over all blocks of each worker, beside the cost of a random read of as much
 * memory as the index uses (`memory-floor.ts`).
 *
 * Two ways for the events to arrive: one by one (a worker that sends each event in a message of its own), and 50 events of
 * one worker at a time. Blocks have Baton's hashes, or hashes of the workers' engines (vLLM, SGLang), which the index
 * translates.
 */
import { performance } from 'node:perf_hooks'
import { EventPrefixIndex } from '../../src/kv/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { median } from '../load/summary.ts'
import { createDraw, shuffle } from './draw.ts'
import { makeHashes } from './hashes.ts'
import { measureFloor } from './memory-floor.ts'

const HOLDERS = 8
/** Events that are timed together, because reading the clock would cost more than one. */
const BATCH = 50
const NO_HASHES = new Uint32Array(0)
const ARRIVALS = ['apply', `applyAll with ${BATCH}`] as const
type Arrival = (typeof ARRIVALS)[number]

/** Block numbers in the order of their removal, in groups of `BATCH` blocks of one worker if `isGrouped`. */
function orderOf(blocksEach: number, isGrouped: boolean): Int32Array {
  const blocks = HOLDERS * blocksEach
  const draw = createDraw()
  const order = Int32Array.from({ length: blocks }, (_, i) => i)
  if (!isGrouped) {
    shuffle(order, 0, blocks, draw)
    return order
  }
  for (let holder = 0; holder < HOLDERS; holder++) {
    shuffle(order, holder * blocksEach, blocksEach, draw)
  }
  const grouped = new Int32Array(blocks)
  let at = 0
  for (let from = 0; from < blocksEach; from += BATCH) {
    for (let holder = 0; holder < HOLDERS; holder++) {
      const first = holder * blocksEach
      const group = order.subarray(first + from, first + Math.min(blocksEach, from + BATCH))
      grouped.set(group, at)
      at += group.length
    }
  }
  return grouped
}

// A function of the module, because V8 would compile a closure for each run anew.
function applyEach(index: EventPrefixIndex, holders: Int32Array, events: KvEvent[]): void {
  for (let i = 0; i < BATCH; i++) index.apply(holders[i] as number, events[i] as KvEvent)
}

interface Removal {
  /** Median nanoseconds per block, also of storing them before; and the mean over the removal of everything. */
  readonly ns: number
  readonly meanNs: number
  readonly storedNs: number
  /** The longest store, in milliseconds. */
  readonly longestMs: number
  /** CPU nanoseconds per block of the process, with its collector and compiler, which removes all there is. */
  readonly cpuNs: number
  /** The most memory per block that is left, until a tenth is. */
  readonly mostBytes: number
  readonly fullBytes: number
  readonly left: number
}

interface Chains {
  readonly hashes: Uint32Array
  /** Local hashes, if `hashes` are an engine's own; otherwise empty. */
  readonly local: Uint32Array
  readonly chainBlocks: number
  /** Number of workers that have each block. */
  readonly sharers: number
}

function measure(arrival: Arrival, chains: Chains): Removal {
  const { hashes, local, chainBlocks, sharers } = chains
  const index = new EventPrefixIndex()
  const stores: number[] = []
  /** Of all workers together: the `b`-th one is a block of worker `b / blocksEach`. */
  const blocks = (hashes.length >> 1) * sharers
  const blocksEach = blocks / HOLDERS
  for (let at = 0; at < hashes.length; at += 2 * chainBlocks) {
    const to = at + 2 * chainBlocks
    const event: KvEvent = {
      kind: 'stored',
      parent: null,
      hashes: hashes.subarray(at, to),
      localHashes: local.subarray(at, to),
      tier: 'device',
    }
    const first = sharers * Math.floor(at / 2 / blocksEach)
    for (let holder = first; holder < first + sharers; holder++) {
      const started = performance.now()
      index.apply(holder, event)
      stores.push(performance.now() - started)
    }
  }
  const fullBytes = index.stats().bytes
  const order = orderOf(blocksEach, arrival !== 'apply')
  const events = Array.from({ length: BATCH }, (): KvEvent => {
    return { kind: 'removed', hashes: new Uint32Array(2), tier: 'device' }
  })
  const holders = new Int32Array(BATCH)
  const ns: number[] = []
  let mostBytes = 0
  const cpuBefore = process.cpuUsage()
  for (let begin = 0; begin + BATCH <= blocks; begin += BATCH) {
    for (let i = 0; i < BATCH; i++) {
      const event = events[i]
      const block = order[begin + i] as number
      if (event?.kind !== 'removed') continue
      const holder = Math.floor(block / blocksEach)
      const at = Math.floor(holder / sharers) * blocksEach + (block % blocksEach)
      event.hashes[0] = hashes[2 * at] as number
      event.hashes[1] = hashes[2 * at + 1] as number
      holders[i] = holder
    }
    const started = performance.now()
    if (arrival === 'apply') applyEach(index, holders, events)
    else index.applyAll(holders[0] as number, events)
    ns.push((1e6 * (performance.now() - started)) / BATCH)
    if (begin % (100 * BATCH) === 0 && begin < 0.9 * blocks) {
      const { bytes, entries } = index.stats()
      mostBytes = Math.max(mostBytes, bytes / entries)
    }
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  const cpuNs = (1e3 * (user + system)) / blocks
  const storedNs = (1e6 * median(stores)) / chainBlocks
  const longestMs = stores.reduce((longest, ms) => Math.max(longest, ms), 0)
  const left = index.stats().entries
  const meanNs = ns.reduce((sum, each) => sum + each, 0) / ns.length
  return { ns: median(ns), meanNs, storedNs, longestMs, cpuNs, mostBytes, fullBytes, left }
}

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b))

export interface Kind {
  /** Whether the blocks have hashes of the workers' engines. */
  readonly areNamed: boolean
  /** Number of workers that have each block: 1, 2, 4 or 8. */
  readonly sharers: number
}

function chainsOf(blocksEach: number, chainBlocks: number, { areNamed, sharers }: Kind): Chains {
  const blocks = (HOLDERS * blocksEach) / sharers
  const local = areNamed ? makeHashes(blocks, 1 << 29) : NO_HASHES
  return { hashes: makeHashes(blocks), local, chainBlocks, sharers }
}

/** Runs a small index of each kind, so that the figures are those of compiled code. */
export function warmUp(kind: Kind): void {
  for (const chainBlocks of [7, 100, 1000]) {
    const chains = chainsOf(7000, chainBlocks, kind)
    for (const arrival of ARRIVALS) measure(arrival, chains)
  }
}

export function randomRemoval(aboutEach: number, chainBlocks: number, kind: Kind): void {
  // Whole groups of whole chains.
  const unit = (BATCH * chainBlocks) / greatestDivisor(BATCH, chainBlocks)
  const blocksEach = Math.max(unit, aboutEach - (aboutEach % unit))
  const chains = chainsOf(blocksEach, chainBlocks, kind)
  console.log(
    `  ${HOLDERS} workers of ${blocksEach} blocks in chains of ${chainBlocks}, each in ${kind.sharers}`,
  )
  for (const arrival of ARRIVALS) {
    const removal = measure(arrival, chains)
    const { ns, meanNs, storedNs, longestMs, cpuNs, mostBytes, fullBytes, left } = removal
    const floor = measureFloor(fullBytes)
    const bytesEach = fullBytes / (HOLDERS * blocksEach)
    console.log(
      `    ${arrival.padEnd(16)} median ${ns.toFixed(0)} ns, mean ${meanNs.toFixed(0)}, CPU ${cpuNs.toFixed(0)} | a random read of ${(fullBytes / 2 ** 20).toFixed(1)} MB: dependent ${floor.dependent.toFixed(0)} ns (${(ns / floor.dependent).toFixed(2)}), independent ${floor.independent.toFixed(1)} | ${bytesEach.toFixed(1)} B per block, at most ${mostBytes.toFixed(0)} per block left, ${left} left | stored ${storedNs.toFixed(0)} ns per block (longest ${longestMs.toFixed(2)} ms)`,
    )
  }
}
