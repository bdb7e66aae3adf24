/** A router that predicts times, when its predictions are wrong and when it knows nothing yet. */
import { describe, expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import type { FaultEvent } from '../faults/fault-schedule.ts'
import { createWorkload } from '../trace/workload.ts'
import type { FleetConfig } from './fleet-config.ts'
import { recordFleet } from './run-fleet.ts'

const WORKERS = 4
const PER_SECOND = 30
const alike: FleetConfig['workers'] = [{ mode: 'agg', count: WORKERS }]
const promptsOf = (requests: number, perSecond = PER_SECOND) =>
  createWorkload({
    kind: 'mix',
    inputTokens: 500,
    outputTokens: 40,
    requests,
    requestsPerSecond: perSecond,
    seed: 2,
  })

async function run(faults: readonly FaultEvent[], requests: number) {
  const { report, routers } = await recordFleet({
    workers: alike,
    trace: promptsOf(requests),
    router: { cost: 'time', deadlines: { overloadWaitMs: 0 } },
    faults,
    settle,
  })
  expect(report.completed).toBe(requests)
  const { decode, warnings } = routers[0]!
  return { report, decode, warnings }
}

describe('cost: time - a worker whose real times drift from the predictions', () => {
  it('permanently - the change is learned, the error decreases again and others get its requests', async () => {
    const slow: FaultEvent = { kind: 'slow', worker: 0, atMs: 5000, untilMs: 1e9, factor: 6 }
    const { report, decode, warnings } = await run([slow], 900)
    const [first, ...others] = report.workers.map(({ requests }) => requests)
    const mean = others.reduce((sum, requests) => sum + requests, 0) / others.length
    expect(first).toBeLessThan(0.6 * mean)
    expect([decode.predictionsOff, warnings]).toEqual([false, []])
    expect(decode.ttftError).toBeLessThan(0.5)
  })

  /** All workers, alternately fast and twenty times as slow. */
  const unsteady = (untilMs: number): FaultEvent[] =>
    Array.from({ length: WORKERS }, (_, worker) =>
      Array.from({ length: Math.floor((untilMs - 3000) / 800) }, (_, i) => {
        const atMs = 3000 + 800 * i + 200 * worker
        return { kind: 'slow', worker, atMs, untilMs: atMs + 400, factor: 50 } as const
      }),
    ).flat()

  it('alternating - blocks decide, which is reported; predictions return when the workers are steady again', async () => {
    const during = await run(unsteady(7000), 210)
    expect(during.decode.predictionsOff).toBe(true)
    expect(during.decode.ttftError).toBeGreaterThan(1)
    expect(during.warnings.join()).toContain('requests are routed by cached and active blocks')
    const later = await run(unsteady(7000), 900)
    expect([later.decode.predictionsOff, later.warnings]).toEqual([false, []])
    expect(later.decode.ttftError).toBeLessThan(0.5)
  })
})

describe('cost: time - prefill workers, which send no token', () => {
  it('their speeds are learned - predictions are close, and a slow one gets fewer prompts', async () => {
    const { report, routers } = await recordFleet({
      workers: [
        { mode: 'prefill', count: 3 },
        { mode: 'prefill', count: 1, engine: { speedupRatio: 0.25 } },
        { mode: 'decode', count: 2 },
      ],
      trace: promptsOf(500, 15),
      router: { cost: 'time', deadlines: { overloadWaitMs: 0 } },
      settle,
    })
    expect(report.completed).toBe(500)
    const { prefill } = routers[0]!
    expect(prefill.ttftError).toBeLessThan(0.5)
    expect(prefill.predictionsOff).toBe(false)
    const [first, second, third, slow] = report.workers.map(({ requests }) => requests)
    expect(slow).toBeLessThan(0.5 * Math.min(first!, second!, third!))
  })
})

describe('cost: time - unknown workers', () => {
  it('a worker that joins a busy fleet - is tried at once and gets its share, not everything', async () => {
    const { log, report } = await recordFleet({
      workers: [
        { mode: 'agg', count: WORKERS },
        { mode: 'agg', count: 1, startupMs: 10_000 },
      ],
      trace: promptsOf(900),
      router: { cost: 'time' },
      settle,
    })
    const after = [...log.rows()].filter(({ atMs }) => atMs > 10_000).length
    const requests = report.workers.at(-1)?.requests ?? 0
    // 120 of 634.
    expect(requests).toBeGreaterThan((0.6 * after) / (WORKERS + 1))
    expect(requests).toBeLessThan((1.6 * after) / (WORKERS + 1))
  })

  it.each([
    ['just started', 0],
    ['learned', 300],
  ] as const)('a burst of uncached prompts - no worker gets most of it (%s)', async (_, before) => {
    const size = 80
    const calm = promptsOf(before + 1)
    const atMs = (calm.at(-1)?.atMs ?? 0) + 2000
    const burst = Array.from({ length: size }, (_, i) => ({
      atMs: atMs + 0.5 * i,
      inputTokens: 800,
      outputTokens: 40,
      hashIds: [1_000_000 + 2 * i, 1_000_001 + 2 * i],
    }))
    const { log } = await recordFleet({
      workers: [{ mode: 'agg', count: 8 }],
      trace: [...calm, ...burst],
      router: { cost: 'time', deadlines: { overloadWaitMs: 0 } },
      settle,
    })
    const counts = new Map<string | null, number>()
    for (const { decodeWorker } of [...log.rows()].slice(before + 1))
      counts.set(decodeWorker, (counts.get(decodeWorker) ?? 0) + 1)
    expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(size)
    expect(counts.size).toBe(8)
    expect(Math.max(...counts.values())).toBeLessThanOrEqual((1.5 * size) / 8)
  })
})
