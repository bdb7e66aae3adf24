/**
 * The longest single call of each kind while an index of 5 M blocks is filled and emptied.
 *
 * Every call is repeated in each round on a new index, and its fastest time counts, because other load on the
 * machine and the garbage collector hit different calls each time, while growth of the index hits the same one.
 */
import { performance } from 'node:perf_hooks'
import { EventPrefixIndex, PrefixMatches } from '../../src/kv/index.ts'
import type { KvEvent, KvTier } from '../../src/kv/index.ts'
import { createDraw } from './draw.ts'

const BLOCKS = 5_000_000
const PROMPT_BLOCKS = 500
/** Number of blocks that a prompt shares with every hundredth other one. */
const SHARED_BLOCKS = 64
const SHARED_HEADS = 100
const EVENT_BLOCKS = 50
const HOLDERS = 64

interface Case {
  readonly name: string
  readonly tier: KvTier
  readonly order: 'from the end' | 'at random'
}

const CASES: readonly Case[] = [
  {
    name: 'device, evicted from the end',
    tier: 'device',
    order: 'from the end',
  },
  {
    name: 'device, evicted at random',
    tier: 'device',
    order: 'at random',
  },
  {
    name: 'host, every block anchored',
    tier: 'host',
    order: 'at random',
  },
]

/** Hashes of all prompts, one after the other, and of each prompt in the order in which it is evicted. */
function makePrompts(order: Case['order']): { stored: Uint32Array; removed: Uint32Array } {
  const draw = createDraw()
  const stored = new Uint32Array(2 * BLOCKS).map(() => Math.floor(draw() * 4294967296))
  const removed = new Uint32Array(2 * BLOCKS)
  const size = 2 * PROMPT_BLOCKS
  for (let begin = 0; begin < stored.length; begin += size) {
    const head = ((begin / size) % SHARED_HEADS) * size
    stored.copyWithin(begin, head, head + 2 * SHARED_BLOCKS)
    const offsets = Array.from({ length: PROMPT_BLOCKS }, (_, i) => PROMPT_BLOCKS - 1 - i)
    if (order === 'at random') {
      for (let i = offsets.length - 1; i > 0; i--) {
        const j = Math.floor(draw() * (i + 1))
        const kept = offsets[i] as number
        offsets[i] = offsets[j] as number
        offsets[j] = kept
      }
    }
    offsets.forEach((offset, i) => {
      removed[begin + 2 * i] = stored[begin + 2 * offset] as number
      removed[begin + 2 * i + 1] = stored[begin + 2 * offset + 1] as number
    })
  }
  return { stored, removed }
}

type Times = Record<'find' | 'stored' | 'removed' | 'holder removed', number[]>

function play(what: Case, prompts: { stored: Uint32Array; removed: Uint32Array }): Times {
  const times: Times = { find: [], stored: [], removed: [], 'holder removed': [] }
  const index = new EventPrefixIndex()
  const matches = new PrefixMatches(HOLDERS)
  const localHashes = new Uint32Array(0)
  const timed = (kind: keyof Times, run: () => void): void => {
    const begin = performance.now()
    run()
    times[kind].push(performance.now() - begin)
  }
  const each = (
    list: Uint32Array,
    act: (holder: number, piece: Uint32Array, at: number) => void,
  ): void => {
    const size = 2 * PROMPT_BLOCKS
    for (let begin = 0; begin < list.length; begin += size) {
      const prompt = list.subarray(begin, begin + size)
      for (let at = 0; at < size; at += 2 * EVENT_BLOCKS) {
        act((begin / size) % HOLDERS, prompt.subarray(at, at + 2 * EVENT_BLOCKS), begin + at)
      }
    }
  }
  const apply = (kind: 'stored' | 'removed', holder: number, event: KvEvent): void => {
    timed(kind, () => {
      const outcome = index.apply(holder, event)
      if (outcome !== 'applied') throw new Error(outcome)
    })
  }
  const { stored, removed } = prompts
  each(stored, (holder, hashes, at) => {
    const isFirst = at % (2 * PROMPT_BLOCKS) === 0
    if (isFirst)
      timed('find', () => index.find(stored.subarray(at, at + 2 * PROMPT_BLOCKS), matches))
    const parent = isFirst ? null : ([stored[at - 2] as number, stored[at - 1] as number] as const)
    apply('stored', holder, { kind: 'stored', parent, hashes, localHashes, tier: what.tier })
  })
  // Half of it block by block; the rest together with its workers.
  each(removed.subarray(0, removed.length / 2), (holder, hashes) => {
    timed('removed', () => index.apply(holder, { kind: 'removed', hashes, tier: what.tier }))
  })
  for (let holder = 0; holder < HOLDERS; holder++) {
    timed('holder removed', () => index.removeHolder(holder))
  }
  if (index.stats().entries !== 0) throw new Error('the index is not empty after all removals')
  return times
}

export function measureStalls(rounds: number): void {
  console.log(
    `${BLOCKS} blocks, ${HOLDERS} holders; longest call in ms, each call the best of ${rounds}`,
  )
  for (const what of CASES) {
    const prompts = makePrompts(what.order)
    const played = Array.from({ length: rounds }, () => play(what, prompts))
    const cells = (['find', 'stored', 'removed', 'holder removed'] as const).map((kind) => {
      let longest = 0
      const first = played[0] as Times
      first[kind].forEach((_, i) => {
        longest = Math.max(longest, Math.min(...played.map((times) => times[kind][i] as number)))
      })
      return `${kind} ${longest.toFixed(2)}`
    })
    console.log(`  ${what.name.padEnd(30)} ${cells.join(' | ')}`)
  }
}
