/**
 * Chains that grow by the turns of chats, which take turns: before each turn a query for the whole prompt, as a router
 * makes it, and then one event with the turn's blocks.
 *
 * Figures are means of a run, and of the runs the medians. The same with the index of another checkout, in turns.
 */
import { performance } from 'node:perf_hooks'
import type { KvEvent } from '../../src/kv/index.ts'
import { median } from '../load/summary.ts'
import { makeHashes } from './hashes.ts'
import { doorsOf } from './short-chains.ts'
import type { Door } from './short-chains.ts'

const BLOCKS = 400_000
const HOLDERS = 8
const ROUNDS = 5
const NO_HASHES = new Uint32Array(0)

interface Row {
  readonly bytes: number
  /** Nanoseconds per stored block, and per query. */
  readonly stored: number
  readonly found: number
}

function measure(door: Door, hashes: Uint32Array, turns: number, turnBlocks: number): Row {
  const index = new door.EventPrefixIndex()
  const matches = new door.PrefixMatches(HOLDERS)
  const length = turns * turnBlocks
  const chats = Math.floor(hashes.length / 2 / length)
  let [storedMs, foundMs] = [0, 0]
  for (let turn = 0; turn < turns; turn++) {
    for (let chat = 0; chat < chats; chat++) {
      const [first, from] = [chat * length, chat * length + turn * turnBlocks]
      const prompt = hashes.subarray(2 * first, 2 * (from + turnBlocks))
      const parent = hashes.subarray(2 * from - 2, 2 * from)
      const event: KvEvent = {
        kind: 'stored',
        parent: turn === 0 ? null : [parent[0] as number, parent[1] as number],
        hashes: hashes.subarray(2 * from, 2 * (from + turnBlocks)),
        localHashes: NO_HASHES,
        tier: 'device',
      }
      const begin = performance.now()
      index.find(prompt, matches)
      const middle = performance.now()
      if (index.apply(chat % HOLDERS, event) !== 'applied') throw new Error('refused')
      foundMs += middle - begin
      storedMs += performance.now() - middle
    }
  }
  const { bytes, entries } = index.stats()
  return {
    bytes: bytes / entries,
    stored: (1e6 * storedMs) / (chats * length),
    found: (1e6 * foundMs) / (chats * turns),
  }
}

/** `beside`: the folder of another checkout. */
export async function growingChains(beside: string | undefined): Promise<void> {
  const doors = await doorsOf(beside)
  const hashes = makeHashes(BLOCKS)
  const few = hashes.subarray(0, 2 * 100_000)
  for (const [, door] of doors) measure(door, few, 10, 8)
  for (const [turns, turnBlocks] of [
    [4, 8],
    [10, 8],
    [20, 8],
    [10, 3],
    [10, 30],
  ] as const) {
    console.log(`  chats of ${turns} turns of ${turnBlocks} blocks`)
    const rows = doors.map((): Row[] => [])
    for (let round = 0; round < ROUNDS; round++) {
      doors.forEach(([, door], i) => rows[i]?.push(measure(door, hashes, turns, turnBlocks)))
    }
    doors.forEach(([name], i) => {
      const of = (figure: (row: Row) => number): number => median((rows[i] ?? []).map(figure))
      console.log(
        `    ${name.padEnd(8)} ${of((row) => row.bytes).toFixed(1)} B/entry | stored ${of((row) => row.stored).toFixed(0)} ns a block | find ${of((row) => row.found).toFixed(0)} ns a query`,
      )
    })
  }
}
