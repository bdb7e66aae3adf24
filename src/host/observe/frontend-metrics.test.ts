import { describe, expect, it, onTestFinished } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { buildModel } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { FrontendMetrics } from './frontend-metrics.ts'

const OPEN_METRICS = 'application/openmetrics-text'

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
})
