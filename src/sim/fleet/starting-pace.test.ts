/** A frontend that has just started, with workers that announce their pace and with workers that do not. */
import { expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import type { EnginePace } from '../../request/index.ts'
import { createWorkload } from '../trace/workload.ts'
import type { FleetGroup } from './fleet-config.ts'
import { runFleet } from './run-fleet.ts'

/** Roughly the simulated engine's pace. */
const paceOf = (slowness: number): EnginePace => ({
  promptMs: 16.5 * slowness,
  promptTokenMs: 0.0152 * slowness,
  stepMs: 5.7 * slowness,
  stepRequestMs: 0,
  stepContextTokenMs: 0.00005 * slowness,
})

it('the first requests on workers of two speeds - come sooner when the workers announce their pace', async () => {
  const trace = createWorkload({
    kind: 'mix',
    inputTokens: 800,
    requests: 60,
    requestsPerSecond: 20,
    seed: 3,
  })
  const groups = (says: boolean): FleetGroup[] =>
    [1, 4].map((slowness) => ({
      mode: 'agg',
      count: 4,
      engine: { speedupRatio: 1 / slowness },
      ...(says ? { pace: paceOf(slowness) } : {}),
    }))
  const at = (says: boolean) =>
    runFleet({ workers: groups(says), trace, router: { cost: 'time' }, settle })
  const [silent, told] = [await at(false), await at(true)]
  expect([silent.completed, told.completed]).toEqual([60, 60])
  // 129 against 144 ms on average, 76 against 178 ms for 90 % of the requests; 1,976 against 2,590 ms until the end.
  expect(told.ttftMs.mean).toBeLessThan(0.95 * silent.ttftMs.mean)
  expect(told.ttftMs.p90).toBeLessThan(0.6 * silent.ttftMs.p90)
  expect(told.e2eMs.mean).toBeLessThan(0.85 * silent.e2eMs.mean)
})
