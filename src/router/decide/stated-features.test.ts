import { describe, expect, it } from 'vitest'
import { buildModel } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'

const NEEDS = { needsStatedFeatures: true }
const engine = { features: ['seed' as const] }

describe('a request that needs features, some workers do not state theirs', () => {
  it('goes to the others, also to one that joined while it waited or ran; never to these', () => {
    const { plane, send, router } = buildModel([card(1), card(2, 'agg', { engine })])
    for (let i = 0; i < 4; i++) send(NEEDS)
    router.fleet.workerLeft(workerIdOf(2), 'gone')
    router.fleet.workerJoined(card(3, 'agg', { engine }))
    for (let i = 0; i < 4; i++) send(NEEDS)
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(
      [2, 2, 2, 2, 3, 3, 3, 3].map(String),
    )
    router.fleet.workerLeft(workerIdOf(3), 'gone')
    const [error] = send(NEEDS).sink.errors
    expect(error?.code).toBe('backend.worker_unavailable')
    expect(error?.message).toContain('features-not-stated')
    send()
    expect(plane.calls.at(-1)?.workerId).toBe('1')
  })

  it('with two legs - any prefill worker may compute the prompt', () => {
    const cards = [card(1, 'prefill'), card(2, 'decode'), card(3, 'decode', { engine })]
    const { plane, send } = buildModel(cards)
    send(NEEDS)
    plane.call(0).prefilled()
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1', '3'])
  })
})
