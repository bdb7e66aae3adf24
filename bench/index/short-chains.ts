/**
 * Distinct prompts of a few blocks: stored whole, looked up in the order of their arrival and in random order, and
 * evicted from the end with one event each.
 *
 * Figures are medians of 50 calls in one go. The same runs with the index of another checkout, in turns.
 */
import { resolve } from 'node:path'
import { performance } from 'node:perf_hooks'
import { pathToFileURL } from 'node:url'
import * as own from '../../src/kv/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { median } from '../load/summary.ts'
import { createDraw, shuffle } from './draw.ts'
import { makeHashes } from './hashes.ts'

export type Door = Pick<typeof own, 'EventPrefixIndex' | 'PrefixMatches'>
type Index = own.EventPrefixIndex

const BLOCKS = 840_000
const HOLDERS = 8
const BATCH = 50
const NO_HASHES = new Uint32Array(0)

// Functions of the module, because V8 would compile a closure for each run anew.
function applyEach(index: Index, holder: number, events: KvEvent[]): number {
  let refused = 0
  for (let i = 0; i < BATCH; i++) {
    if (index.apply(holder, events[i] as KvEvent) !== 'applied') refused += 1
  }
  return refused
}

function findAll(index: Index, queries: Uint32Array[], matches: own.PrefixMatches): number {
  for (let i = 0; i < BATCH; i++) index.find(queries[i] as Uint32Array, matches)
  return 0
}

interface Row {
  readonly bytes: number
  readonly stored: number
  readonly found: number
  readonly foundRandom: number
  readonly removed: number
  readonly refused: number
  readonly leftBytes: number
}

function measure(door: Door, hashes: Uint32Array, chainBlocks: number): Row {
  const index = new door.EventPrefixIndex()
  const matches = new door.PrefixMatches(HOLDERS)
  const size = 2 * chainBlocks
  const chains = Math.floor(hashes.length / size / BATCH) * BATCH
  const inOrder = Int32Array.from({ length: chains }, (_, i) => i)
  const random = inOrder.slice()
  shuffle(random, 0, chains, createDraw())
  const slots = Array.from({ length: BATCH }, () => new Uint32Array(size))
  let refused = 0
  /** Median nanoseconds of one call about a chain. */
  const timed = (
    order: Int32Array,
    act: (holder: number) => number,
    isReversed = false,
  ): number => {
    const ns: number[] = []
    for (let from = 0; from < chains; from += BATCH) {
      slots.forEach((slot, i) => {
        const at = (order[from + i] as number) * size
        slot.set(hashes.subarray(at, at + size))
        if (isReversed) new BigUint64Array(slot.buffer).reverse()
      })
      const begin = performance.now()
      refused += act((from / BATCH) % HOLDERS)
      ns.push((1e6 * (performance.now() - begin)) / BATCH)
    }
    return median(ns)
  }
  const stores = slots.map((slot): KvEvent => {
    return { kind: 'stored', parent: null, hashes: slot, localHashes: NO_HASHES, tier: 'device' }
  })
  const removals = slots.map((slot): KvEvent => ({ kind: 'removed', hashes: slot, tier: 'device' }))
  const stored = timed(inOrder, (holder) => applyEach(index, holder, stores)) / chainBlocks
  const full = index.stats()
  const storesRefused = refused
  const found = timed(inOrder, () => findAll(index, slots, matches))
  const foundRandom = timed(random, () => findAll(index, slots, matches))
  const removed = timed(inOrder, (h) => applyEach(index, h, removals), true) / chainBlocks
  return {
    bytes: full.bytes / full.entries,
    stored,
    found,
    foundRandom,
    removed,
    refused: storesRefused / chains,
    leftBytes: index.stats().bytes,
  }
}

function print(name: string, row: Row): void {
  const { bytes, stored, found, foundRandom, removed, refused, leftBytes } = row
  console.log(
    `    ${name.padEnd(8)} ${bytes.toFixed(1)} B/entry | stored ${stored.toFixed(0)} ns a block | find in order ${found.toFixed(0)}, in random order ${foundRandom.toFixed(0)} ns a query | removed ${removed.toFixed(0)} ns a block | refused ${(100 * refused).toFixed(0)} % | then ${(leftBytes / 1024).toFixed(0)} KiB left`,
  )
}

/** This index, and that of another checkout in the folder `beside`. */
export async function doorsOf(beside: string | undefined): Promise<[string, Door][]> {
  const doors: [string, Door][] = [['this', own]]
  if (beside !== undefined) {
    const url = pathToFileURL(resolve(beside, 'src/kv/index.ts')).href
    doors.push(['other', (await import(url)) as Door])
  }
  return doors
}

/** `beside`: the folder of another checkout. */
export async function shortChains(beside: string | undefined): Promise<void> {
  const doors = await doorsOf(beside)
  const hashes = makeHashes(BLOCKS)
  const few = hashes.subarray(0, 2 * 140_000)
  for (const [, door] of doors)
    for (const chainBlocks of [1, 7, 40]) measure(door, few, chainBlocks)
  for (const chainBlocks of [1, 2, 3, 5, 7, 8, 12, 16, 24, 32, 33, 48, 65, 100]) {
    console.log(`  chains of ${chainBlocks}`)
    for (const [name, door] of doors) print(name, measure(door, hashes, chainBlocks))
  }
}
