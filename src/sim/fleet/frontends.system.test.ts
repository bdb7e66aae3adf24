/** The effect of several frontends on decisions, and of the role controller, in virtual time. */
import { describe, expect, it } from 'vitest'
import { sharedPrefixWorkload } from '../trace/shared-prefix-workload.ts'
import { createWorkload } from '../trace/workload.ts'
import type { FleetReport } from '../report/fleet-report.ts'
import type { FleetConfig } from './fleet-config.ts'
import { recordFleet, runFleet } from './run-fleet.ts'

type Shape = Omit<Parameters<typeof createWorkload>[0], 'requests' | 'seed'>

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const trace = sharedPrefixWorkload({
  requests: 900,
  groups: 40,
  prefixBlocks: 16,
  questionTokens: 300,
  outputTokens: 60,
  requestsPerSecond: 12,
  seed: 5,
})

async function withFrontends(
  frontends: number,
  change: Partial<FleetConfig> = {},
): Promise<FleetReport> {
  return await runFleet({
    workers: [{ mode: 'agg', count: 6, engine: { blockCount: 1600 } }],
    trace,
    frontends,
    settle,
    ...change,
  })
}

describe('several frontends', () => {
  it.each([
    ['cost: time, with KV events', { router: { cost: 'time' } }],
    ['cost: time, without KV events', { router: { cost: 'time' }, eventDelayMs: null }],
    ['cost: blocks, with KV events', { router: { cost: 'blocks' } }],
    ['cost: blocks, without KV events', { router: { cost: 'blocks' }, eventDelayMs: null }],
  ] as const)('%s - reuse and TTFT stay within three percent of one', async (_, change) => {
    const one = await withFrontends(1, change)
    for (const count of [2, 4]) {
      const several = await withFrontends(count, change)
      expect(several.completed).toBe(trace.length)
      expect(several.blockReuse, `${count}: reuse`).toBeGreaterThan(0.97 * one.blockReuse)
      expect(several.ttftMs.mean, `${count}: TTFT`).toBeLessThan(1.03 * one.ttftMs.mean)
    }
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
      /** Mean of three seeds. */
      const measured = async (frontends: number, eventDelayMs: number | null) => {
        const sums = { reuse: 0, ttftMs: 0 }
        for (const seed of [1, 2, 3]) {
          const trace = createWorkload({ ...load, ...shape, seed })
          const config = { workers, trace, eventDelayMs, peerDelayMs, check: true }
          const { violations, blockReuse, ttftMs } = await withFrontends(frontends, config)
          expect(violations).toEqual([])
          sums.reuse += blockReuse / 3
          sums.ttftMs += ttftMs.mean / 3
        }
        return sums
      }
      for (const eventDelayMs of [1, null]) {
        const one = await measured(1, eventDelayMs)
        for (const count of [2, 4]) {
          const several = await measured(count, eventDelayMs)
          const what = `${count} frontends, ${eventDelayMs === null ? 'no events' : 'events'}`
          expect(several.reuse, `${what}: reuse`).toBeGreaterThanOrEqual(0.97 * one.reuse)
          expect(several.ttftMs, `${what}: TTFT`).toBeLessThan(1.03 * one.ttftMs)
        }
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
