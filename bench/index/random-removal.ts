/**
 * Removals of single blocks in random order, over all blocks of each worker, beside the cost of a random read of as much
 * memory as the index uses (`memory-floor.ts`).
 *
 * Two ways for the events to arrive: one by one (a worker that sends each event in a message of its own), and 50 events of
 * one worker at a time.
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
  /** Median nanoseconds per block. */
  readonly ns: number
  /** CPU nanoseconds per block of the process, with its collector and compiler, which removes all there is. */
  readonly cpuNs: number
  /** The most memory per block that is left, until a tenth is. */
  readonly mostBytes: number
  readonly fullBytes: number
  readonly left: number
}

function measure(arrival: Arrival, hashes: Uint32Array, chainBlocks: number): Removal {
  const index = new EventPrefixIndex()
  const blocks = hashes.length >> 1
  const blocksEach = blocks / HOLDERS
  for (let at = 0; at < hashes.length; at += 2 * chainBlocks) {
    const chain = hashes.subarray(at, at + 2 * chainBlocks)
    const holder = Math.floor(at / 2 / blocksEach)
    index.apply(holder, {
      kind: 'stored',
      parent: null,
      hashes: chain,
      localHashes: NO_HASHES,
      tier: 'device',
    })
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
      event.hashes[0] = hashes[2 * block] as number
      event.hashes[1] = hashes[2 * block + 1] as number
      holders[i] = Math.floor(block / blocksEach)
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
  return { ns: median(ns), cpuNs, mostBytes, fullBytes, left: index.stats().entries }
}

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b))

/** Runs a small index of each kind, so that the figures are those of compiled code. */
export function warmUp(): void {
  for (const chainBlocks of [7, 100, 1000]) {
    const hashes = makeHashes(HOLDERS * 7000)
    for (const arrival of ARRIVALS) measure(arrival, hashes, chainBlocks)
  }
}

export function randomRemoval(aboutEach: number, chainBlocks: number): void {
  // Whole groups of whole chains.
  const unit = (BATCH * chainBlocks) / greatestDivisor(BATCH, chainBlocks)
  const blocksEach = Math.max(unit, aboutEach - (aboutEach % unit))
  const hashes = makeHashes(HOLDERS * blocksEach)
  console.log(`  ${HOLDERS} workers of ${blocksEach} blocks in chains of ${chainBlocks}`)
  for (const arrival of ARRIVALS) {
    const { ns, cpuNs, mostBytes, fullBytes, left } = measure(arrival, hashes, chainBlocks)
    const floor = measureFloor(fullBytes)
    console.log(
      `    ${arrival.padEnd(16)} median ${ns.toFixed(0)} ns, CPU ${cpuNs.toFixed(0)} | a random read of ${(fullBytes / 2 ** 20).toFixed(1)} MB: dependent ${floor.dependent.toFixed(0)} ns (${(ns / floor.dependent).toFixed(2)}), independent ${floor.independent.toFixed(1)} | at most ${mostBytes.toFixed(0)} B per block left, ${left} left`,
    )
  }
}
