import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import { mockEngineOptions } from '../../simengine/index.ts'
import type { SchedulerOptions } from '../../simengine/index.ts'
import { Distribution } from '../report/distribution.ts'
import { formatFleetReport } from '../report/fleet-report.ts'
import { runFleet } from './run-fleet.ts'
import type { FleetConfig } from './fleet-config.ts'
import { sharedPrefixWorkload } from '../trace/shared-prefix-workload.ts'

const trace = sharedPrefixWorkload({
  requests: 120,
  groups: 12,
  prefixBlocks: 8,
  questionTokens: 200,
  outputTokens: 40,
  requestsPerSecond: 25,
  seed: 1,
})

const fleet = (change: Partial<FleetConfig> = {}): FleetConfig => ({
  workers: [{ mode: 'agg', count: 4 }],
  trace,
  settle,
  ...change,
  // Some of these loads exceed the fleet's capacity; here all requests wait.
  router: { ...change.router, deadlines: { overloadWaitMs: 0 } },
})

describe('runFleet', () => {
  it('serves every request, the same way each time', async () => {
    const report = await runFleet(fleet())
    expect(report).toMatchObject({ requests: 120, completed: 120, failed: {}, disaggregated: 0 })
    expect(report.outputTokens).toBe(120 * 40)
    expect(report.itlMs.count).toBe(120 * 39)
    expect(report.workers.reduce((sum, worker) => sum + worker.requests, 0)).toBe(120)
    expect(await runFleet(fleet())).toEqual(report)
    expect(formatFleetReport(report)).toContain('completed 120')
  })

  it('a run starts with its first request, wherever that is in the trace', async () => {
    const few = trace.slice(0, 8).map((request, i) => ({ ...request, atMs: 5_000 * i }))
    const inOrder = await runFleet(fleet({ trace: few }))
    const backwards = await runFleet(fleet({ trace: few.toReversed() }))
    expect(backwards.durationMs).toBe(inOrder.durationMs)
    expect(inOrder.durationMs).toBeGreaterThan(35_000)
    // At once, although the trace starts much later.
    const late = few.map((request) => ({ ...request, atMs: request.atMs + 1e9 }))
    const closed = await runFleet(fleet({ trace: late, concurrency: 8 }))
    expect(closed.requestsPerSecond).toBeGreaterThan(1)
  })

  it('a context length - a prompt that does not fit is refused, an answer ends at it', async () => {
    const few = [90, 99, 100, 300].map((inputTokens, i) => ({
      atMs: i,
      inputTokens,
      outputTokens: 30,
      hashIds: [i],
    }))
    const report = await runFleet(fleet({ trace: few, contextLength: 100, check: true }))
    expect(report.failed).toEqual({ 'request.context_length_exceeded': 2 })
    expect(report).toMatchObject({ completed: 2, outputTokens: 10 + 1, violations: [] })
  })

  it('overhead - comes before the first token and outside the engine, whose work is unchanged', async () => {
    const few = trace.slice(0, 5).map((request, i) => ({ ...request, atMs: 5_000 * i }))
    const plain = await runFleet(fleet({ trace: few }))
    const slower = await runFleet(
      fleet({ trace: few, overhead: { requestMs: 3, msPerToken: 0.01 } }),
    )
    const more = slower.ttftMs.mean - plain.ttftMs.mean
    expect(more).toBeCloseTo(3 + 0.01 * (slower.promptTokens / 5), 6)
    expect(slower.itlMs).toEqual(plain.itlMs)
  })

  it('KV-aware routing finds more cached tokens than round-robin', async () => {
    // Each worker can cache a third of the groups.
    const workers = [{ mode: 'agg', count: 4, engine: { blockCount: 400 } }] as const
    const kv = await runFleet(fleet({ workers, router: { mode: 'kv' } }))
    const turn = await runFleet(fleet({ workers, router: { mode: 'round-robin' } }))
    expect(kv.reuse).toBeGreaterThan(turn.reuse + 0.1)
    expect(kv.ttftMs.mean).toBeLessThan(turn.ttftMs.mean)
    expect(kv.promptTokens).toBe(turn.promptTokens)
  })

  it.each([
    [[{ mode: 'agg', count: 2 }]],
    [
      [
        { mode: 'prefill', count: 1 },
        { mode: 'decode', count: 2 },
      ],
    ],
  ] as const)(
    '%j - the same whether steps are computed ahead or each has a timer',
    async (workers) => {
      // Too much for the fleet: a delayed message to a router would change the result.
      const busy = sharedPrefixWorkload({
        requests: 150,
        groups: 12,
        prefixBlocks: 8,
        questionTokens: 200,
        outputTokens: 60,
        requestsPerSecond: 40,
        seed: 2,
      })
      const { itlMs: ahead, ...one } = await runFleet(fleet({ workers, trace: busy }))
      const { itlMs: timed, ...other } = await runFleet(
        fleet({ workers, trace: busy, stepwise: true }),
      )
      expect(one).toEqual(other)
      // The same gaps, summed in another order.
      expect(ahead.mean).toBeCloseTo(timed.mean, 9)
      expect(ahead.p99).toBeCloseTo(timed.p99, 9)
    },
  )

  it('returns every token of a step with speculative drafts, and ends sooner', async () => {
    const engine = mockEngineOptions({ aic_nextn: 2, aic_nextn_accept_rates: [1, 1] })
    const plain = await runFleet(fleet())
    const drafted = await runFleet(fleet({ workers: [{ mode: 'agg', count: 4, engine }] }))
    expect([drafted.completed, drafted.outputTokens]).toEqual([120, 120 * 40])
    expect(drafted.workers.reduce((sum, worker) => sum + worker.outputTokens, 0)).toBe(120 * 40)
    expect(drafted.e2eMs.mean).toBeLessThan(plain.e2eMs.mean / 2)
  })

  it('finds blocks in host memory that the device had evicted', async () => {
    const small = { blockCount: 200, kvBytesPerToken: 1e5 }
    const host = { ...small, offload: { hostBlocks: 4000, bandwidth: { hostToDevice: 50 } } }
    const reuseOf = async (engine: SchedulerOptions): Promise<number> =>
      (await runFleet(fleet({ workers: [{ mode: 'agg', count: 4, engine }] }))).reuse
    expect(await reuseOf(host)).toBeGreaterThan((await reuseOf(small)) + 0.1)
  })

  it('decodes without delays by other prompts when prefill runs elsewhere', async () => {
    const engine = { kvBytesPerToken: 131_072, kvTransferBandwidth: 50 }
    const split = await runFleet(
      fleet({
        workers: [
          { mode: 'prefill', count: 2, engine },
          { mode: 'decode', count: 2, engine },
        ],
      }),
    )
    expect(split).toMatchObject({ completed: 120, disaggregated: 120 })
    expect(split.itlMs.max).toBeLessThan((await runFleet(fleet())).itlMs.max / 3)
  })

  it('continues on another worker when one dies, or counts the request as lost when migration is off', async () => {
    const deaths = [{ worker: 0, atMs: 3000 }]
    const moved = await runFleet(fleet({ deaths, check: true }))
    expect(moved).toMatchObject({ completed: 120, failed: {}, violations: [] })
    expect(moved.migrations).toBeGreaterThan(0)
    const report = await runFleet(fleet({ deaths, migrationLimit: 0 }))
    const { 'transport.disconnected': lost = 0, 'transport.cannot_connect': late = 0 } =
      report.failed
    expect(lost).toBeGreaterThan(0)
    expect(report.completed + lost + late).toBe(120)
    await expect(runFleet(fleet({ deaths: [{ worker: 9, atMs: 1 }] }))).rejects.toThrow('worker 9')
  })

  it('refuses what no worker can hold', async () => {
    const report = await runFleet(
      fleet({ workers: [{ mode: 'agg', count: 1, engine: { blockCount: 8 } }] }),
    )
    expect(report.failed).toEqual({ 'request.context_length_exceeded': 120 })
  })
})

describe('runFleet - random deaths', () => {
  it('every request ends once and the router books nothing for dead workers', async () => {
    const death = fc.record({ worker: fc.nat(4), atMs: fc.integer({ min: 1, max: 4000 }) })
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(death, { maxLength: 4, selector: ({ worker }) => worker }),
        fc.nat(2),
        fc.constantFrom('kv', 'round-robin', 'least-loaded'),
        fc.nat(1000),
        async (deaths, prefills, mode, seed) => {
          const engine = { blockCount: 300, kvBytesPerToken: 131_072, kvTransferBandwidth: 10 }
          const report = await runFleet({
            workers: [
              { mode: 'prefill', count: prefills, engine },
              { mode: prefills === 0 ? 'agg' : 'decode', count: 5 - prefills, engine },
            ],
            trace: trace.slice(0, 60),
            router: { mode, deadlines: { overloadWaitMs: 0 } },
            deaths,
            seed,
            check: true,
            settle,
          })
          const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
          expect(report.completed + failed).toBe(60)
          expect(report.leftBookings).toBe(0)
          expect(report.violations).toEqual([])
          if (deaths.length === 0) expect(failed).toBe(0)
        },
      ),
      { numRuns: 25 },
    )
  })
})

describe('Distribution', () => {
  it('computes mean and percentiles by nearest rank', () => {
    const values = new Distribution()
    for (let i = 3000; i > 0; i--) values.add(i)
    expect(values.summary()).toEqual({
      count: 3000,
      mean: 1500.5,
      p50: 1500,
      p90: 2700,
      p99: 2970,
      max: 3000,
    })
    expect(new Distribution().summary().p99).toBe(0)
  })
})
