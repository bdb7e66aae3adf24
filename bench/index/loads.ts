/**
 * Loads that a trace of long prompts does not contain: distinct short chains, chains that grow, events of one block, removals of
 * single blocks in random order (also with the hashes of engines), and many workers with one prefix.
 *
 * Each prints bytes and nanoseconds per block; events of one block and many holders also the longest single call.
 */
import { performance } from 'node:perf_hooks'
import { EventPrefixIndex, PrefixMatches } from '../../src/kv/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { growingChains } from './growing-chains.ts'
import { makeHashes } from './hashes.ts'
import { randomRemoval, warmUp } from './random-removal.ts'
import { shortChains } from './short-chains.ts'

const NO_HASHES = new Uint32Array(0)

class Timer {
  totalMs = 0
  longestMs = 0
  run(act: () => void): void {
    const begin = performance.now()
    act()
    const ms = performance.now() - begin
    this.totalMs += ms
    if (ms > this.longestMs) this.longestMs = ms
  }

  per(count: number): string {
    return `${((1e6 * this.totalMs) / count).toFixed(0)} ns (longest ${this.longestMs.toFixed(2)} ms)`
  }
}

/** The minimum of each of a number of calls over several rounds. */
class Calls {
  readonly #ms: Float64Array

  constructor(count: number) {
    this.#ms = new Float64Array(count).fill(Infinity)
  }

  run(i: number, act: () => void): void {
    const begin = performance.now()
    act()
    this.#ms[i] = Math.min(this.#ms[i] as number, performance.now() - begin)
  }

  get summary(): string {
    const total = this.#ms.reduce((sum, ms) => sum + ms, 0)
    const longest = this.#ms.reduce((most, ms) => Math.max(most, ms), 0)
    return `${((1e6 * total) / this.#ms.length).toFixed(0)} ns (longest ${longest.toFixed(2)} ms)`
  }
}

class Load {
  readonly index = new EventPrefixIndex()
  readonly stored = new Timer()
  refused = 0

  store(holder: number, parent: readonly [number, number] | null, hashes: Uint32Array): void {
    const event: KvEvent = {
      kind: 'stored',
      parent,
      hashes,
      localHashes: NO_HASHES,
      tier: 'device',
    }
    this.stored.run(() => {
      if (this.index.apply(holder, event) !== 'applied') this.refused += 1
    })
  }

  get bytesPerEntry(): string {
    const { bytes, entries } = this.index.stats()
    return entries === 0 ? `${(bytes / 1024).toFixed(0)} KiB left` : (bytes / entries).toFixed(1)
  }
}

/** Chains that grow by one block at a time, as during decoding; `open` of them in turn. */
function oneBlockEvents(blocks: number, chainBlocks: number, open: number): void {
  const load = new Load()
  const hashes = makeHashes(blocks)
  const size = 2 * chainBlocks
  for (let begin = 0; begin + open * size <= hashes.length; begin += open * size) {
    for (let at = 0; at < size; at += 2) {
      for (let chain = 0; chain < open; chain++) {
        const from = begin + chain * size + at
        const parent =
          at === 0 ? null : ([hashes[from - 2] as number, hashes[from - 1] as number] as const)
        load.store(chain % 8, parent, hashes.subarray(from, from + 2))
      }
    }
  }
  const { entries } = load.index.stats()
  console.log(
    `  one-block events, ${open} chains of ${chainBlocks} by turns: ${load.bytesPerEntry} B/entry | stored ${load.stored.per(entries)} | refused ${load.refused}`,
  )
}

/** How often the load of many holders is repeated: the longest call is the minimum of each call over all rounds. */
const HOLDER_ROUNDS = 4

/** One prefix that all workers have cached, with one further block for each; then all workers leave. */
function manyHolders(holders: number, prefixBlocks: number): void {
  const prefix = makeHashes(prefixBlocks)
  const own = makeHashes(holders + 1, 1 << 30)
  const last = [prefix[2 * prefixBlocks - 2] as number, prefix[2 * prefixBlocks - 1] as number]
  const calls = { stored: new Calls(2 * holders), found: new Calls(1), removed: new Calls(holders) }
  let [full, left] = ['', '']
  for (let round = 0; round < HOLDER_ROUNDS; round++) {
    const load = new Load()
    for (let holder = 0; holder < holders; holder++) {
      const block = own.subarray(2 * holder + 2, 2 * holder + 4)
      calls.stored.run(2 * holder, () => load.store(holder, null, prefix))
      calls.stored.run(2 * holder + 1, () => load.store(holder, last as [number, number], block))
    }
    full = load.bytesPerEntry
    const matches = new PrefixMatches(holders)
    calls.found.run(0, () => load.index.find(prefix, matches))
    for (let holder = 0; holder < holders; holder++) {
      calls.removed.run(holder, () => load.index.removeHolder(holder))
    }
    left = load.bytesPerEntry
  }
  console.log(
    `  ${holders} holders of ${prefixBlocks} blocks: ${full} B/entry | store ${calls.stored.summary} | find ${calls.found.summary} | removeHolder ${calls.removed.summary} | then ${left}`,
  )
}

const OWN = { areNamed: false, sharers: 1 }
const NAMED = { areNamed: true, sharers: 1 }
const LOADS: Readonly<Record<string, (beside: string | undefined) => void | Promise<void>>> = {
  short: shortChains,
  chats: growingChains,
  one: () => {
    oneBlockEvents(800_000, 100, 1)
    oneBlockEvents(800_000, 100, 400)
  },
  random: () => {
    warmUp(OWN)
    for (const chainBlocks of [7, 32, 100, 1000]) {
      for (const blocksEach of [4_700, 31_000, 250_000]) {
        randomRemoval(blocksEach, chainBlocks, OWN)
      }
    }
  },
  named: () => {
    warmUp(NAMED)
    for (const chainBlocks of [7, 100, 1000]) {
      for (const blocksEach of [4_700, 31_000, 250_000]) {
        randomRemoval(blocksEach, chainBlocks, NAMED)
      }
    }
  },
  shared: () => {
    for (const sharers of [2, 4, 8]) {
      const kind = { areNamed: false, sharers }
      warmUp(kind)
      for (const chainBlocks of [7, 100, 1000]) {
        for (const blocksEach of [4_700, 31_000, 250_000]) {
          randomRemoval(blocksEach, chainBlocks, kind)
        }
      }
    }
  },
  holders: () => {
    manyHolders(100_000, 4)
    manyHolders(100_000, 100)
    manyHolders(1_000_000, 4)
    manyHolders(1_000_000, 100)
  },
}

/** Runs the loads with these names, or all; `beside` is the folder of another checkout. */
export async function measureLoads(names: string, beside: string | undefined): Promise<void> {
  const chosen = names === 'all' ? Object.keys(LOADS) : names.split(',')
  for (const name of chosen) {
    const load = LOADS[name]
    if (load === undefined) throw new Error(`--loads: expected ${Object.keys(LOADS).join(', ')}`)
    console.log(name)
    await load(beside)
  }
}
