import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { KvEvent } from '../../kv/index.ts'
import { BlockEvents } from './block-events.ts'
import { CopyLink } from './copy-link.ts'
import { createSchedulerConfig } from '../scheduler/scheduler-config.ts'
import type { SchedulerOptions } from '../scheduler/scheduler-config.ts'
import { SimScheduler } from '../scheduler/sim-scheduler.ts'
import type { SimSequence } from '../scheduler/sim-sequence.ts'
import { TierStore } from './tier-store.ts'

describe('CopyLink - one batch at a time', () => {
  it('blocks queued during a copy - go with the next batch, as many as fit', () => {
    const link = new CopyLink<string>(10, 2)
    expect(link.arrivesAtMs).toBeNull()
    for (const item of ['a', 'b', 'c', 'd']) link.push(item, 100)
    const seen: [number | null, readonly string[]][] = []
    while (link.arrivesAtMs !== null) seen.push([link.arrivesAtMs, link.arrive()])
    expect(seen).toEqual([
      [110, ['a']],
      [130, ['b', 'c']],
      [140, ['d']],
    ])
    link.push('e', 500)
    expect(link.arrivesAtMs).toBe(510)
  })

  it('a link that is too slow - drops blocks beyond its queue limit', () => {
    const link = new CopyLink<number>(10, 1, 3)
    const taken = Array.from({ length: 6 }, (_, item) => link.push(item, 0))
    expect(taken).toEqual([true, true, true, true, false, false])
    expect(link.arrive()).toEqual([0])
    expect(link.push(6, 10)).toBe(true)
    expect(link.push(7, 10)).toBe(false)
  })
})

/** Blocks of a small tree: block n hangs on block n >> 1. */
const blockOf = (
  n: number,
): { low: number; high: number; parent: readonly [number, number] | null } => ({
  low: n,
  high: 7,
  parent: n <= 1 ? null : [n >> 1, 7],
})

describe('TierStore - compared with a naive list', () => {
  it('stores only blocks whose parent is present, evicts the least recently used leaf, reports everything', () => {
    const command = fc.tuple(
      fc.constantFrom('store', 'store', 'use'),
      fc.integer({ min: 1, max: 31 }),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.array(command, { maxLength: 80 }),
        (capacity, commands) => {
          const events = new BlockEvents()
          const store = new TierStore(capacity, 'host', events)
          let naive: { n: number; usedAt: number }[] = []
          const told = new Set<number>()
          const isLeaf = (n: number): boolean => !naive.some((each) => each.n >> 1 === n && n > 0)
          for (const [at, [kind, n]] of commands.entries()) {
            const known = naive.find((each) => each.n === n)
            if (known !== undefined) {
              if (isLeaf(n)) known.usedAt = at
            } else if (kind === 'store' && (n === 1 || naive.some((each) => each.n === n >> 1))) {
              const victims = naive.filter((each) => isLeaf(each.n) && each.n !== n >> 1)
              const victim = victims.toSorted((a, b) => a.usedAt - b.usedAt)[0]
              const isFull = naive.length >= capacity
              if (isFull && victim !== undefined) {
                naive = naive.filter((each) => each !== victim)
                const above = naive.find((each) => each.n === victim.n >> 1)
                if (above !== undefined && isLeaf(above.n)) above.usedAt = at - 0.5
              }
              if (!isFull || victim !== undefined) naive.push({ n, usedAt: at })
              else {
                const parent = naive.find((each) => each.n === n >> 1)
                if (parent !== undefined && isLeaf(parent.n)) parent.usedAt = at
              }
            }
            if (kind === 'store') store.store(blockOf(n))
            else store.use(n, 7)
            for (const event of events.take()) {
              if (event.kind === 'cleared') continue
              for (let i = 0; i < event.hashes.length; i += 2) {
                if (event.kind === 'stored') told.add(event.hashes[i]!)
                else told.delete(event.hashes[i]!)
              }
            }
            const expected = naive.map((each) => each.n).toSorted((a, b) => a - b)
            expect([...told].toSorted((a, b) => a - b)).toEqual(expected)
            expect(store.size).toBe(expected.length)
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})

interface Run {
  readonly scheduler: SimScheduler<string>
  readonly events: KvEvent[]
  nowMs: number
  /** Runs one request to its end; returns when it was admitted, its cached tokens and when its token came. */
  ask(name: string, promptBlocks: number): { cachedTokens: number; ttftMs: number }
}

const BLOCK = 4

/** 1 MB a token: a block of 4 tokens takes 4 ms at 1 GB/s. Prefill takes 100 ms whatever it has to compute. */
function run(options: SchedulerOptions): Run {
  const scheduler = new SimScheduler<string>(
    createSchedulerConfig({
      blockCount: 5,
      blockTokens: BLOCK,
      kvBytesPerToken: 1e6,
      timing: { kind: 'polynomial', prefill: [100], decode: [1] },
      ...options,
    }),
  )
  const events: KvEvent[] = []
  const state: Run = {
    scheduler,
    events,
    nowMs: 0,
    ask(name, promptBlocks) {
      const promptHashes = Uint32Array.from({ length: 2 * promptBlocks }, (_, i) =>
        i % 2 === 0 ? i >> 1 : name.charCodeAt(0),
      )
      const promptTokens = promptBlocks * BLOCK + 1
      const startMs = state.nowMs
      const sequence: SimSequence<string> = scheduler.submit(
        { owner: name, promptTokens, promptHashes, outputTokens: 1 },
        startMs,
      )
      while (sequence.state !== 'ended') {
        const step = scheduler.step(state.nowMs)
        events.push(...(step?.kvEvents ?? scheduler.takeKvEvents()))
        state.nowMs = step?.endMs ?? scheduler.nextWakeMs(state.nowMs)!
      }
      return { cachedTokens: sequence.cachedTokens, ttftMs: state.nowMs - startMs }
    },
  }
  return state
}

describe('SimScheduler - offload to host and disk', () => {
  it('without offload - evicted blocks are computed again', () => {
    const it_ = run({})
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 0, ttftMs: 100 })
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 12, ttftMs: 100 })
    it_.ask('b', 4)
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 0, ttftMs: 100 })
  })

  it('host memory - evicted blocks return after the time of their bytes, then the rest is computed', () => {
    const it_ = run({ offload: { hostBlocks: 10, bandwidth: { hostToDevice: 0.5 } } })
    it_.ask('a', 3)
    it_.ask('b', 4)
    // Three blocks of 4 MB at 0.5 GB/s.
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 12, ttftMs: 24 + 100 })
    // Now they are in the device's cache again.
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 12, ttftMs: 100 })
    const tiers = new Set(it_.events.flatMap((event) => ('tier' in event ? [event.tier] : [])))
    expect([...tiers]).toEqual(['device', 'host'])
  })

  it('a copy that has not arrived yet - cannot be used', () => {
    const it_ = run({ offload: { hostBlocks: 10, bandwidth: { deviceToHost: 0.01 } } })
    it_.ask('a', 3)
    it_.ask('b', 4)
    // One block of 4 MB at 0.01 GB/s takes 400 ms: none of the three has arrived 100 ms after the first ask.
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 0, ttftMs: 100 })
    it_.ask('c', 4)
    it_.nowMs = 700
    // By now the first block has arrived, but not the two that were copied together after it.
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 4, ttftMs: 100 })
  })

  it('disk - blocks evicted from the host return over both links', () => {
    const it_ = run({
      offload: {
        hostBlocks: 4,
        diskBlocks: 20,
        bandwidth: { hostToDevice: 0.5, diskToHost: 0.25 },
      },
    })
    it_.ask('a', 3)
    it_.ask('b', 4)
    it_.ask('c', 4)
    // 12 MB at 0.25 GB/s, then at 0.5 GB/s.
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 12, ttftMs: 48 + 24 + 100 })
    expect(it_.scheduler.tiers!.diskCount).toBe(11)
  })

  it('clearing the cache - removes all blocks and reports it', () => {
    const it_ = run({ offload: { hostBlocks: 10, diskBlocks: 10 } })
    it_.ask('a', 3)
    it_.ask('b', 4)
    it_.scheduler.clearCache()
    expect(it_.scheduler.takeKvEvents()).toEqual([{ kind: 'cleared' }])
    expect([it_.scheduler.tiers!.hostCount, it_.scheduler.tiers!.diskCount]).toEqual([0, 0])
    expect(it_.ask('a', 3)).toEqual({ cachedTokens: 0, ttftMs: 100 })
  })

  it.each<[string, SchedulerOptions]>([
    ['hostBlocks', { offload: { hostBlocks: 0 } }],
    ['diskBlocks', { offload: { hostBlocks: 1, diskBlocks: -1 } }],
    ['batchBlocks', { offload: { hostBlocks: 1, batchBlocks: 0 } }],
    ['prefix caching', { offload: { hostBlocks: 1 }, prefixCaching: false }],
    ['kvBytesPerToken', { offload: { hostBlocks: 1, bandwidth: { hostToDisk: 1 } } }],
    ['hostToDisk', { offload: { hostBlocks: 1, bandwidth: { hostToDisk: -1 } } }],
  ])('%s - is refused by name', (name, options) => {
    expect(() => createSchedulerConfig(options)).toThrow(name)
  })
})

describe('SimScheduler - admission of sglang', () => {
  /** How many of ten requests of 8 tokens with an output of 40 run at once at the beginning, in 200 tokens. */
  const runningOf = (options: SchedulerOptions): number => {
    const scheduler = new SimScheduler<number>(
      createSchedulerConfig({ engineType: 'sglang', blockCount: 200, ...options }),
    )
    for (let owner = 0; owner < 10; owner++) {
      const promptHashes = new Uint32Array(0)
      scheduler.submit({ owner, promptTokens: 8, promptHashes, outputTokens: 40 }, 0)
    }
    scheduler.step(0)
    return scheduler.runningCount
  }

  it('scheduleConservativeness - admits fewer or more requests', () => {
    // Each that runs holds 8 tokens and is expected to need 0.7 · 40 more; a new one must find 48.
    expect(runningOf({})).toBe(5)
    expect(runningOf({ sglang: { scheduleConservativeness: 1.4 } })).toBe(4)
    expect(runningOf({ sglang: { scheduleConservativeness: 0.1 } })).toBe(10)
  })

  it('clipMaxNewTokens - limits the output counted per request', () => {
    expect(runningOf({ sglang: { clipMaxNewTokens: 4 } })).toBe(10)
  })

  it('maxPrefillTokens - limits the prompt tokens per step; a prompt alone may have more', () => {
    expect(runningOf({ sglang: { maxPrefillTokens: 16, clipMaxNewTokens: 4 } })).toBe(2)
    expect(runningOf({ sglang: { maxPrefillTokens: 7, clipMaxNewTokens: 4 } })).toBe(1)
  })

  it('other engine types - refuse these options', () => {
    expect(() => createSchedulerConfig({ sglang: {} })).toThrow('sglang')
  })
})
