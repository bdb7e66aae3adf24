/** Conditional disaggregation on a fleet whose decode workers have capacity for some prompts. */
import { describe, expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import type { RouterOptions } from '../../router/index.ts'
import { sharedPrefixWorkload } from '../trace/shared-prefix-workload.ts'
import type { FleetConfig } from './fleet-config.ts'
import { recordFleet } from './run-fleet.ts'

describe('conditional disaggregation by predicted times on a fleet', () => {
  const workers: FleetConfig['workers'] = [
    { mode: 'prefill', count: 2, engine: { maxSequences: 16 } },
    { mode: 'decode', count: 2, engine: { maxSequences: 16 } },
  ]

  const conditional = { enabled: true, effectiveIslRatioThreshold: 1 }

  it('free decode workers - first tokens come sooner than with two legs for all', async () => {
    const [apart, times] = [await run({}, 2), await run({ conditional }, 2)]
    expect(times.ttftMs).toBeLessThan(0.97 * apart.ttftMs)
    expect(times.e2eMs).toBeLessThan(1.01 * apart.e2eMs)
    expect(times.aggregated).toBeGreaterThan(100)
  })

  it('busy decode workers - their prompts do not delay the others, as they do with a decision by length', async () => {
    const [apart, times] = [await run({}, 20), await run({ conditional }, 20)]
    const byLength = await run({ cost: 'blocks', conditional }, 20)
    expect(times.ttftMs).toBeLessThan(1.01 * apart.ttftMs)
    expect(times.e2eMs).toBeLessThan(0.8 * byLength.e2eMs)
    expect(times.e2eMs).toBeLessThan(1.03 * apart.e2eMs)
    expect(times.aggregated).toBeGreaterThan(0)
    expect(byLength.aggregated).toBeGreaterThan(2 * times.aggregated)
  })

  async function run(router: RouterOptions, requestsPerSecond: number) {
    const trace = sharedPrefixWorkload({
      requests: 400,
      groups: 40,
      prefixBlocks: 4,
      questionTokens: 1500,
      outputTokens: 80,
      requestsPerSecond,
      seed: 5,
    })
    const { report } = await recordFleet({
      workers,
      trace,
      router: { cost: 'time', ...router, deadlines: { overloadWaitMs: 0 } },
      settle,
    })
    expect(report.failed).toEqual({})
    expect(report.leftBookings).toBe(0)
    return {
      ttftMs: report.ttftMs.mean,
      e2eMs: report.e2eMs.mean,
      aggregated: report.completed - report.disaggregated,
    }
  }
})
