/**
 * The lower bound of docs/routing-quality.md: no policy is below it for any request, and requests that are alone reach
 * it.
 */
import { describe, expect, it } from 'vitest'
import { qualityLoads } from '../bench/routing/loads.ts'
import type { LoadRun } from '../bench/routing/loads.ts'
import { requestBounds } from '../bench/routing/lower-bound.ts'
import { POLICIES } from '../bench/routing/policies.ts'
import { randomLoads } from '../bench/routing/random-loads.ts'
import { settle } from '../src/os/index.ts'
import { recordFleet } from '../src/sim/index.ts'
import type { FleetGroup, RequestRow, TraceRequest } from '../src/sim/index.ts'

/** Times are rounded to nanoseconds per step. */
const ROUNDING_MS = 1e-3

async function run(load: LoadRun, policy: string): Promise<RequestRow[]> {
  const router = {
    ...load.router,
    ...POLICIES[policy],
    deadlines: { overloadWaitMs: 0, queueMs: 0 },
  }
  const { log } = await recordFleet({ ...load, router, settle })
  return [...log.rows()]
}

describe('lower bound of routing', () => {
  const loads = [...randomLoads(0, 10), ...qualityLoads('').filter(({ workers }) => workers === 8)]
  it.each(loads)('$name - no policy beats it for any request', async (quality) => {
    const load = quality.make(0, 60)
    const bounds = requestBounds(load.workers, load.trace)
    for (const policy of ['time', 'weighed', 'power-of-two']) {
      const rows = await run(load, policy)
      expect(rows).toHaveLength(load.trace.length)
      const below = rows.filter(({ index, ttftMs, tpotMs, e2eMs }) => {
        const bound = bounds[index]!
        const leastMs = Math.min(ttftMs - bound.ttftMs, tpotMs - bound.tpotMs, e2eMs - bound.e2eMs)
        return leastMs < -ROUNDING_MS
      })
      expect(below, policy).toEqual([])
    }
  })

  const transfer = { kvBytesPerToken: 131_072, kvTransferBandwidth: 12.5 }
  it.each<[string, FleetGroup[]]>([
    ['one worker', [{ mode: 'agg', count: 1 }]],
    [
      'prefill and decode',
      (['prefill', 'decode'] as const).map((mode) => ({ mode, count: 1, engine: transfer })),
    ],
  ])('%s - requests that are alone reach it', async (_, workers) => {
    const prompt = (second: number, hashIds: number[], inputTokens: number): TraceRequest => ({
      atMs: 60_000 * second,
      hashIds,
      inputTokens,
      outputTokens: 40,
    })
    const trace = [
      prompt(0, [1, 2], 1000),
      prompt(1, [1, 3, 4], 1500),
      prompt(2, [1, 2], 1000),
      prompt(
        3,
        Array.from({ length: 16 }, (_id, i) => 10 + i),
        8192,
      ),
    ]
    const goal = { ttftMs: 1, tpotMs: 1 }
    const rows = await run({ workers, trace, goal }, 'time')
    for (const [index, bound] of requestBounds(workers, trace).entries()) {
      const { ttftMs, tpotMs, e2eMs } = rows[index]!
      expect(ttftMs).toBeCloseTo(bound.ttftMs, 2)
      expect(tpotMs).toBeCloseTo(bound.tpotMs, 2)
      expect(e2eMs).toBeCloseTo(bound.e2eMs, 2)
    }
  })
})
