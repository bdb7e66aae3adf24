import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { FrontendMetrics, WorkerMetrics } from '../src/host/index.ts'
import { SmallFleet } from './frontend/small-fleet.ts'

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

function expectAccepted(text: string): void {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  })
  expect([status, `${stdout}${stderr}`]).toEqual([0, ''])
}

/** From Debian's package `prometheus`; skipped where it is not installed. */
describe.skipIf(!hasPromtool)('promtool check metrics', () => {
  it('frontend - metrics after a request with two legs pass the linter', async () => {
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
    expectAccepted(text)
    metrics.close()
  })

  it('worker - metrics pass the linter', async () => {
    const health = {
      live: true,
      ready: true,
      state: 'running',
      inFlight: 0,
      openOffers: 0,
    } as const
    const metrics = new WorkerMetrics(() => health)
    expectAccepted(await metrics.text())
  })
})
