/** The effect of several frontends on decisions, and of the role controller, in virtual time. */
import { describe, expect, it } from 'vitest'
import { sharedPrefixWorkload } from '../trace/shared-prefix-workload.ts'
import { createWorkload } from '../trace/workload.ts'
import type { FleetConfig } from './fleet-config.ts'
import { recordFleet, runFleet } from './run-fleet.ts'

type Shape = Omit<Parameters<typeof createWorkload>[0], 'requests' | 'seed'>

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

interface Means {
  readonly reuse: number
  readonly ttftMs: number
}

/** Means over several seeds, because the ratio of single runs scatters by three percent. */
async function meansOf(
  seeds: readonly number[],
  configOf: (seed: number) => FleetConfig,
): Promise<Means> {
  const sums = { reuse: 0, ttftMs: 0 }
  for (const seed of seeds) {
    const config = configOf(seed)
    const report = await runFleet({ check: true, settle, ...config })
    expect(report.violations).toEqual([])
    expect(report.completed).toBe(config.trace.length)
    sums.reuse += report.blockReuse / seeds.length
    sums.ttftMs += report.ttftMs.mean / seeds.length
  }
  return sums
}

/** Two and four frontends against one. */
async function expectLikeOne(measured: (frontends: number) => Promise<Means>): Promise<void> {
  const one = await measured(1)
  for (const count of [2, 4]) {
    const several = await measured(count)
    expect(several.reuse, `${count}: reuse`).toBeGreaterThanOrEqual(0.97 * one.reuse)
    expect(several.ttftMs, `${count}: TTFT`).toBeLessThan(1.03 * one.ttftMs)
  }
}

describe('several frontends', () => {
  it.each([
    ['cost: time, with KV events', { router: { cost: 'time' } }],
    ['cost: time, without KV events', { router: { cost: 'time' }, eventDelayMs: null }],
    ['cost: blocks, with KV events', { router: { cost: 'blocks' } }],
    ['cost: blocks, without KV events', { router: { cost: 'blocks' }, eventDelayMs: null }],
  ] as const)('%s - reuse and TTFT stay within three percent of one', async (_, change) => {
    const workers = [{ mode: 'agg', count: 6, engine: { blockCount: 1600 } }] as const
    const load = { requests: 900, groups: 40, prefixBlocks: 16, questionTokens: 300 }
    await expectLikeOne((frontends) =>
      meansOf([5, 6, 7, 8, 9, 10], (seed) => {
        const trace = sharedPrefixWorkload({
          ...load,
          outputTokens: 60,
          requestsPerSecond: 12,
          seed,
        })
        return { workers, trace, frontends, ...change }
      }),
    )
  })
})

describe('several frontends with loads of other shapes', () => {
  const load = { requests: 500, outputTokens: 80 }
  const kv = { kvBytesPerToken: 131_072, kvTransferBandwidth: 12.5 }
  /** They cannot know a request sooner than this, so two of them may choose the same worker within it. */
  const peerDelayMs = 0.5
  const LOADS: Readonly<Record<string, Omit<FleetConfig, 'trace'> & { shape: Shape }>> = {
    'workers of different speeds': {
      workers: [
        { mode: 'agg', count: 6 },
        { mode: 'agg', count: 2, engine: { speedupRatio: 0.25 } },
      ],
      shape: { kind: 'shared-prefix', groups: 32, requestsPerSecond: 60 },
    },
    documents: {
      workers: [{ mode: 'agg', count: 8 }],
      shape: { kind: 'rag', requestsPerSecond: 75 },
    },
    'nothing shared, some prompts are long': {
      workers: [{ mode: 'agg', count: 8 }],
      shape: { kind: 'mix', inputTokens: 200, requestsPerSecond: 110 },
    },
    'prefill and decode workers': {
      workers: [
        { mode: 'prefill', count: 4, engine: kv },
        { mode: 'decode', count: 4, engine: kv },
      ],
      shape: { kind: 'shared-prefix', groups: 64, requestsPerSecond: 42 },
    },
  }

  it.each(Object.keys(LOADS))(
    '%s - reuse and TTFT stay within three percent of one',
    async (name) => {
      const { shape, workers } = LOADS[name]!
      for (const eventDelayMs of [1, null]) {
        await expectLikeOne((frontends) =>
          meansOf([1, 2, 3], (seed) => {
            const trace = createWorkload({ ...load, ...shape, seed })
            return { workers, trace, frontends, eventDelayMs, peerDelayMs }
          }),
        )
      }
    },
  )
})

describe('the role controller', () => {
  /** Long prompts, short answers. */
  const prompts = (requestsPerSecond: number) =>
    sharedPrefixWorkload({
      requests: 300,
      groups: 300,
      prefixBlocks: 8,
      questionTokens: 1000,
      outputTokens: 20,
      requestsPerSecond,
      seed: 1,
    })
  const control = { ttftGoalMs: 1000, holdMs: 5_000, restMs: 10_000 }
  const workers = [
    { mode: 'prefill', count: 1, engine: { blockCount: 4096 }, changesRole: true },
    { mode: 'decode', count: 5, engine: { blockCount: 4096 }, changesRole: true },
  ] as const

  it("prompts that exceed one prefill worker's capacity - decode workers help, and first tokens come sooner", async () => {
    const trace = prompts(14)
    const still = await recordFleet({ workers, trace, settle })
    const moved = await recordFleet({
      workers,
      trace,
      roles: control,
      check: true,
      settle,
    })
    expect(still.roleChanges).toEqual([])
    expect(moved.roleChanges.length).toBeGreaterThan(0)
    expect(moved.roleChanges[0]).toMatchObject({ from: 'decode', to: 'prefill' })
    expect(moved.report.completed).toBe(trace.length)
    expect(moved.report.violations).toEqual([])
    expect(moved.report.ttftMs.mean).toBeLessThan(0.7 * still.report.ttftMs.mean)
    // Hysteresis: no change comes sooner after another than the rest time.
    for (const [index, { atMs }] of moved.roleChanges.entries()) {
      const before = moved.roleChanges[index - 1]
      if (before !== undefined) expect(atMs - before.atMs).toBeGreaterThanOrEqual(control.restMs)
    }
  })

  it('prompts within its capacity - no worker changes', async () => {
    const { roleChanges } = await recordFleet({
      workers,
      trace: prompts(5),
      roles: control,
      settle,
    })
    expect(roleChanges).toEqual([])
  })
})
