import { describe, expect, it, onTestFinished } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { FrontendEvent, RequestFacts } from '../../frontend/index.ts'
import { buildModel } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { FrontendMetrics } from './frontend-metrics.ts'

const OPEN_METRICS = 'application/openmetrics-text'

const FACTS: Omit<RequestFacts, 'model'> = {
  requestId: 'r',
  endpoint: 'chat_completions',
  streamed: true,
  traceparent: undefined,
}
const RECEIVED: FrontendEvent = { kind: 'received', atMs: 0 }
const ENDED: FrontendEvent = {
  kind: 'ended',
  outcome: 'success',
  status: 200,
  errorCode: undefined,
  errorMessage: undefined,
  stage: undefined,
  durationMs: 20,
  preprocessMs: 1,
  ttftMs: 10,
  itlMs: 1,
  promptTokens: 100,
  completionTokens: 10,
  cachedTokens: 0,
  ttftTargetMs: undefined,
  itlTargetMs: undefined,
  requestTimestampMs: undefined,
  sessionId: undefined,
  tenantId: undefined,
  atMs: 20,
}

function request(metrics: FrontendMetrics, model: string): void {
  for (const event of [RECEIVED, ENDED]) metrics.observe(event, { ...FACTS, model })
}

describe('FrontendMetrics', () => {
  it.each([undefined, OPEN_METRICS])(
    'Accept %s - the page contains current values',
    async (accept) => {
      const { router } = buildModel([card(1, 'agg'), card(2, 'agg')], {})
      const metrics = new FrontendMetrics({ routers: () => [['storyteller', router.status()]] })
      onTestFinished(() => metrics.close())
      const linesOf = async (name: string): Promise<readonly string[]> => {
        const { body } = await metrics.page(accept)
        return body.split('\n').filter((line) => line.startsWith(`baton_frontend_${name}{`))
      }
      expect(await linesOf('worker_active_requests')).toHaveLength(2)
      router.fleet.workerLeft(workerIdOf(2), 'closed')
      expect(await linesOf('role_workers')).toContain(
        'baton_frontend_role_workers{model="storyteller",worker_type="decode"} 1',
      )
      expect(await linesOf('worker_active_requests')).toHaveLength(1)
    },
  )

  it('a model that is not served any more - is on no page', async () => {
    const { router } = buildModel([card(1, 'agg')], {})
    let isServed = true
    const metrics = new FrontendMetrics({
      routers: () => (isServed ? [['storyteller', router.status()]] : []),
    })
    onTestFinished(() => metrics.close())
    expect(await metrics.text()).toContain('queue_pending_requests{model="storyteller"')
    isServed = false
    expect(await metrics.text()).not.toContain('model="storyteller"')
  })

  it('requests of a model that is not served any more - are shown once more, then dropped', async () => {
    let served: readonly string[] = ['old', 'new']
    const { router } = buildModel([card(1, 'agg')], {})
    const metrics = new FrontendMetrics({
      routers: () => served.map((model) => [model, router.status()] as const),
    })
    onTestFinished(() => metrics.close())
    const series = async (model: string): Promise<number> =>
      (await metrics.text()).split(`model="${model}"`).length - 1
    for (const model of ['old', 'new']) request(metrics, model)
    const atFirst = await series('new')
    expect(atFirst).toBeGreaterThan(30)
    served = ['new']
    const counted = await series('old')
    expect(counted).toBeGreaterThan(30)
    expect(await series('old')).toBe(0)
    expect(await series('new')).toBe(atFirst)
    served = ['old', 'new']
    request(metrics, 'old')
    expect(await metrics.text()).toContain('requests_started_total{model="old",')
    expect(await metrics.text()).toMatch(/inflight_requests\{model="old"\} 0\n/)
  })

  it('a request that outlives its model - keeps the series until it has ended', async () => {
    const metrics = new FrontendMetrics({ routers: () => [] })
    onTestFinished(() => metrics.close())
    metrics.observe(RECEIVED, { ...FACTS, model: 'old' })
    for (let scrape = 0; scrape < 3; scrape++) {
      expect(await metrics.text()).toContain('inflight_requests{model="old"} 1')
    }
    metrics.observe(ENDED, { ...FACTS, model: 'old' })
    expect(await metrics.text()).toContain('inflight_requests{model="old"} 0')
    expect(await metrics.text()).not.toContain('model="old"')
  })
})
