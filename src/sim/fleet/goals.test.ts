/** Latency goals: more requests meet them on a fleet that cannot meet all. */
import { describe, expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import type { RouterOptions } from '../../router/index.ts'
import type { FleetConfig } from './fleet-config.ts'
import { recordFleet } from './run-fleet.ts'
import { sharedPrefixWorkload } from '../trace/shared-prefix-workload.ts'

/** Half of the requests have a tight goal, the others a wide one. */
const goalOf = (index: number) => ({ ttftMs: index % 2 === 0 ? 400 : 8000 })

describe('latency goals on a fleet', () => {
  const workers: FleetConfig['workers'] = [{ mode: 'agg', count: 4, engine: { maxSequences: 8 } }]

  it('1.5 times the capacity - more requests meet their goals than without, and the others are refused', async () => {
    const [without, withGoals] = [await run({}, false), await run({}, true)]
    expect(withGoals.kept).toBeGreaterThan(1.5 * without.kept)
    expect(withGoals.ttftMs).toBeLessThan(0.5 * without.ttftMs)
    expect(Object.keys(withGoals.failed)).toEqual(['capacity.goal_unreachable'])
    expect([without.leftBookings, withGoals.leftBookings]).toEqual([0, 0])
  })

  it.each(['blocks', 'time'] as const)(
    'cost: %s, no refusals - priority by slack alone: more requests meet their goals, and all are answered',
    async (cost) => {
      const router = { cost, refuseLateGoals: false }
      const [without, withGoals] = [await run(router, false), await run(router, true)]
      expect(withGoals.kept).toBeGreaterThan(1.5 * without.kept)
      expect(withGoals.failed).toEqual({})
    },
  )

  async function run(router: RouterOptions, hasGoals: boolean) {
    const trace = sharedPrefixWorkload({
      requests: 1200,
      groups: 40,
      prefixBlocks: 4,
      questionTokens: 900,
      outputTokens: 60,
      requestsPerSecond: 90,
      seed: 5,
    })
    const { log, report } = await recordFleet({
      workers,
      trace,
      router: { cost: 'time', ...router, deadlines: { overloadWaitMs: 0 } },
      ...(hasGoals ? { goalsOf: (_, index) => goalOf(index) } : {}),
      settle,
    })
    const kept = [...log.rows()].filter(
      ({ index, code, ttftMs }) => code === null && ttftMs <= goalOf(index).ttftMs,
    )
    const { failed, leftBookings } = report
    return { kept: kept.length, failed, leftBookings, ttftMs: report.ttftMs.mean }
  }
})
