import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { FrontendMetrics, WorkerMetrics } from '../src/host/index.ts'
import { SmallFleet } from './frontend/small-fleet.ts'

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

/** Names whose endings the linter does not like, but which others know by these names. */
const KNOWN = /nodejs_|process_|_total" should|non-base unit/

function complaintsOf(text: string): string[] {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  })
  // 3: it could be read and does not follow all conventions.
  expect([0, 3]).toContain(status)
  return `${stdout}${stderr}`.split('\n').filter((line) => line !== '' && !KNOWN.test(line))
}

/** Debian's package `prometheus` has the program; where it is not installed there is nothing to ask. */
describe.skipIf(!hasPromtool)('promtool check metrics', () => {
  it('frontend - after a request over two legs', async () => {
    const fleet = await SmallFleet.start([
      { id: 11, mode: 'prefill' },
      { id: 21, mode: 'decode' },
    ])
    const metrics = new FrontendMetrics({ routers: () => [['m', fleet.router.status()]] })
    fleet.onEvent = metrics.observe
    await fleet.ask({ max_tokens: 3 })
    const text = await metrics.text()
    expect(text).toContain(
      'baton_frontend_prefill_seconds_count{model="storyteller",phase="prefill"} 1',
    )
    expect(complaintsOf(text)).toEqual([])
    metrics.close()
  })

  it('worker', async () => {
    const health = {
      live: true,
      ready: true,
      state: 'running',
      inFlight: 0,
      openOffers: 0,
    } as const
    const metrics = new WorkerMetrics(() => health)
    expect(complaintsOf(await metrics.text())).toEqual([])
  })
})
