import { describe, expect, it } from 'vitest'

import { ManualClock } from '../../test/router/manual-clock.ts'
import { card, RecordingSink, request, ScriptedPlane } from '../../test/router/scripted-plane.ts'
import { seededRandom, workerIdOf } from '../base/index.ts'
import type { RoutingHints, WorkerCard } from '../request/index.ts'
import { createModelRouter } from './index.ts'
import type { RouterOptions } from './index.ts'

function build(cards: readonly WorkerCard[], config: RouterOptions = {}) {
  const plane = new ScriptedPlane()
  const clock = new ManualClock()
  const router = createModelRouter({ plane, clock, random: seededRandom(1), config })
  for (const worker of cards) router.fleet.workerJoined(worker)
  const send = (routing: RoutingHints = {}, tokens = 16) => {
    const sink = new RecordingSink()
    const sent = request(tokens, routing)
    const handle = router.service.send(sent, sink)
    return { sink, sent, handle }
  }
  const load = () => {
    const { prefill, decode } = router.status()
    return [...prefill.ranks, ...decode.ranks].reduce(
      (sum, rank) => sum + rank.activeRequests + rank.activeDecodeBlocks + rank.activePrefillTokens,
      0,
    )
  }
  return { plane, clock, router, send, load }
}

const PD = [card(1, 'prefill'), card(2, 'decode')]
const BOOTSTRAP = card(1, 'prefill', { engine: { bootstrapHost: 'p', bootstrapPort: 9 } })

describe('PrefillRouter: states', () => {
  it('not activated - requests go aggregated, and the reason is counted', () => {
    const { plane, router, send } = build([card(2, 'decode')])
    const { sink } = send()
    expect(router.status().disaggregation.state).toBe('pending')
    expect(sink.routed[0]?.phase).toBe('aggregated')
    expect(plane.call(0).request.prefillResult).toBeUndefined()
    expect(router.status().disaggregation.aggregatedBy).toEqual({
      'no prefill worker has come yet': 1,
    })
  })

  it('deactivated and reactivated - follows the prefill workers', () => {
    const { router, send } = build(PD)
    expect(router.status().disaggregation.state).toBe('active')
    router.fleet.workerLeft(workerIdOf(1), 'gone')
    expect(router.status().disaggregation.state).toBe('unavailable')
    expect(send().sink.routed[0]?.phase).toBe('aggregated')
    expect(router.status().warnings.join()).toContain('all prefill workers are gone')
    router.fleet.workerJoined(card(1, 'prefill'))
    expect(router.status().disaggregation.state).toBe('active')
    expect(send().sink.routed[0]?.phase).toBe('prefill')
  })

  it('enforce - refuses instead of falling back and gates canServeRequests', () => {
    const { router, send, plane } = build([card(2, 'decode')], { enforceDisaggregation: true })
    expect(router.canServeRequests()).toBe(false)
    expect(send().sink.errors[0]?.code).toBe('backend.worker_unavailable')
    expect(plane.calls).toHaveLength(0)
    router.fleet.workerJoined(card(1, 'prefill'))
    expect(router.canServeRequests()).toBe(true)
    expect(send().sink.errors).toHaveLength(0)
  })
})

describe('PrefillRouter: completed path', () => {
  it('two legs - prefill makes one token, decode has the own limit and the hand-over', () => {
    const { plane, send, load } = build(PD)
    const { sink } = send()
    expect(plane.call(0).workerId).toBe('1')
    expect(plane.call(0).request.stop.maxTokens).toBe(1)
    plane.call(0).prefilled({ engineParams: { x: 1 } })
    expect(sink.prefillDoneCount).toBe(1)
    const decode = plane.call(1)
    expect(decode.workerId).toBe('2')
    expect(decode.request.stop.maxTokens).toBe(100)
    expect(decode.request.prefillResult).toEqual({ engineParams: { x: 1 } })
    expect(decode.request.routing.prefillWorkerId).toBe('1')
    decode.token(5)
    decode.finish('stop')
    expect(sink.tokens).toEqual([5])
    expect(sink.routed.map(({ phase }) => phase)).toEqual(['prefill', 'decode'])
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('decode override - no overlap credit, no reuse, no prefill tracking; others are kept', () => {
    const { plane, send } = build(PD)
    send({ overrides: { temperature: 0.5 } })
    plane.call(0).prefilled()
    expect(plane.call(1).request.routing.overrides).toEqual({
      temperature: 0.5,
      overlapScoreCredit: 0,
      assumeKvReuse: false,
      trackPrefillTokens: false,
    })
  })
})
