/**
 * Fills a prefix index with chains of so many blocks and empties it again, chain by chain; prints the resident bytes before,
 * full, and empty. `named`: the blocks have an engine's own hashes. Needs `--expose-gc`.
 */
import { EventPrefixIndex } from '../dist/kv/index.js'

const BLOCKS = 1_500_000
const HOLDERS = 8
const length = Number(process.argv[2])
const isNamed = process.argv[3] === 'named'
const none = new Uint32Array(0)

function mix(x) {
  const mixed = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  return Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35) >>> 0
}

const chain = (i, first = 1) =>
  Uint32Array.from({ length: 2 * length }, (_, k) => mix(2 * length * i + k + first))

function resident() {
  for (let i = 0; i < 3; i++) globalThis.gc()
  return process.memoryUsage().rss
}

function fillAndEmpty(index, chains, whenFull) {
  for (let i = 0; i < chains; i++) {
    const event = {
      kind: 'stored',
      parent: null,
      hashes: chain(i),
      localHashes: isNamed ? chain(i, 1 << 30) : none,
      tier: 'device',
    }
    if (index.apply(i % HOLDERS, event) !== 'applied') throw new Error('refused')
  }
  whenFull()
  for (let i = 0; i < chains; i++) {
    index.apply(i % HOLDERS, { kind: 'removed', hashes: chain(i), tier: 'device' })
  }
}

// Compiles the code before memory is measured.
fillAndEmpty(new EventPrefixIndex(), 20_000, () => undefined)
const index = new EventPrefixIndex()
const before = resident()
let full = 0
fillAndEmpty(index, Math.floor(BLOCKS / length), () => (full = resident()))
process.stdout.write(JSON.stringify({ before, full, empty: resident(), ...index.stats() }))
