import { describe, expect, it } from 'vitest'

import { buildModel, PD } from '../../../test/router/model-fixture.ts'
import { card, RecordingSink, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'

describe('PrefillRouter: states', () => {
  it('not activated - requests run aggregated, and the reason is counted', () => {
    const { plane, router, send } = buildModel([card(2, 'decode')])
    const { sink } = send()
    expect(router.status().disaggregation.state).toBe('pending')
    expect(sink.routed[0]?.phase).toBe('aggregated')
    expect(plane.call(0).request.prefillResult).toBeUndefined()
    expect(router.status().disaggregation.aggregatedBy).toEqual({
      'no prefill worker has registered yet': 1,
    })
  })

  it('deactivated and reactivated - follows the prefill workers', () => {
    const { router, send } = buildModel(PD)
    expect(router.status().disaggregation.state).toBe('active')
    router.fleet.workerLeft(workerIdOf(1), 'gone')
    expect(router.status().disaggregation.state).toBe('unavailable')
    expect(send().sink.routed[0]?.phase).toBe('aggregated')
    expect(router.status().warnings.join()).toContain('all prefill workers have left')
    router.fleet.workerJoined(card(1, 'prefill'))
    expect(router.status().disaggregation.state).toBe('active')
    expect(send().sink.routed[0]?.phase).toBe('prefill')
  })

  it('enforce - refuses instead of falling back and affects canServeRequests', () => {
    const { router, send, plane } = buildModel([card(2, 'decode')], { enforceDisaggregation: true })
    expect(router.canServeRequests()).toBe(false)
    expect(send().sink.errors[0]?.code).toBe('backend.worker_unavailable')
    expect(plane.calls).toHaveLength(0)
    router.fleet.workerJoined(card(1, 'prefill'))
    expect(router.canServeRequests()).toBe(true)
    expect(send().sink.errors).toHaveLength(0)
  })
})

describe('PrefillRouter: embeddings', () => {
  const embed = ({ router }: ReturnType<typeof buildModel>, routing = {}) => {
    const sink = new RecordingSink()
    router.service.send({ ...request(16, routing), kind: 'embed' }, sink)
    return sink
  }

  it('one leg on a prefill worker - no decode, no cached KV expected, the booking is freed', () => {
    const model = buildModel(PD)
    const sink = embed(model)
    const call = model.plane.call(0)
    expect([call.workerId, sink.routed[0]?.phase]).toEqual(['1', 'prefill'])
    expect(model.load()).toBeGreaterThan(0)
    call.finish('stop')
    expect([sink.ends, model.plane.calls.length, model.load()]).toEqual([1, 1, 0])
    expect(model.router.status().disaggregation.requests).toBe(0)
    const again = model.send()
    expect(again.sink.routed[0]?.overlapBlocks).toBe(0)
  })

  it('without prefill workers, or if the client names one - on the other pool', () => {
    const model = buildModel(PD)
    embed(model, { backendWorkerId: workerIdOf(2) })
    model.router.fleet.workerLeft(workerIdOf(1), 'gone')
    embed(model)
    expect(model.plane.calls.map((call) => call.workerId)).toEqual(['2', '2'])
  })
})

describe('PrefillRouter: completed path', () => {
  it("two legs - prefill makes one token, decode has the client's limit and the hand-over", () => {
    const { plane, send, load } = buildModel(PD)
    const { sink } = send()
    expect(plane.call(0).workerId).toBe('1')
    expect(plane.call(0).request.stop.maxTokens).toBe(1)
    plane.call(0).prefilled({ engineParams: { x: 1 } })
    expect(sink.phases.map(({ kind }) => kind)).toEqual([
      'prefillQueued',
      'routed',
      'prefillStarted',
      'prefillDone',
      'decodeQueued',
      'routed',
    ])
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

  it('decode overrides - no overlap credit, no reuse, no prefill tracking; others are kept', () => {
    const { plane, send } = buildModel(PD)
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

describe('PrefillRouter: prefill request', () => {
  it('minimum length - is lowered together with the limit', () => {
    const { plane, router } = buildModel(PD)
    const sent = request(16, {}, { stop: { maxTokens: 50, minTokens: 20 } })
    router.service.send(sent, new RecordingSink())
    expect(plane.call(0).request.stop).toEqual({ maxTokens: 1, minTokens: 1 })
    plane.call(0).prefilled()
    expect(plane.call(1).request.stop).toEqual({ maxTokens: 50, minTokens: 20 })
  })

  it('trace context - is sent with both legs', () => {
    const { plane, router } = buildModel(PD)
    router.service.send(request(16, {}, { traceparent: '00-a-b-01' }), new RecordingSink())
    plane.call(0).prefilled()
    expect(plane.calls.map((call) => call.request.traceparent)).toEqual(['00-a-b-01', '00-a-b-01'])
  })

  it('the first token is the end - it is the reply, without the hand-over', () => {
    const { plane, send, load } = buildModel(PD)
    const { sink } = send()
    plane.call(0).sink.onChunk({ tokenIds: [2], finish: 'eos', prefillResult: {} })
    expect(sink.tokens).toEqual([2])
    expect(sink.chunks[0]).toEqual({ tokenIds: [2], finish: 'eos' })
    expect(plane.calls).toHaveLength(1)
    expect(load()).toBe(0)
  })

  it('no hand-over - decode computes the prompt itself, and that is counted', () => {
    const { plane, send, router } = buildModel(PD)
    send()
    plane.call(0).finish('length')
    expect(plane.call(1).request.prefillResult).toBeUndefined()
    expect(router.status().disaggregation.aggregatedBy).toEqual({
      'prefill returned no KV to transfer': 1,
    })
  })

  it('no hand-over, enforced - the request fails and names the stage', () => {
    const { plane, send } = buildModel(PD, { enforceDisaggregation: true })
    const { sink } = send()
    plane.call(0).finish('length')
    expect(sink.errors[0]?.code).toBe('kv.transfer_failed')
    expect(sink.errors[0]?.data['stage']).toBe('prefill')
  })
})

describe('PrefillRouter: preselected workers', () => {
  const FOUR = [card(1, 'prefill'), card(2, 'decode'), card(3, 'prefill'), card(4, 'decode')]

  it('preselected - both legs go where the request says', () => {
    const { plane, send } = buildModel(FOUR)
    for (let i = 0; i < 3; i++) {
      send({ prefillWorkerId: workerIdOf(3), decodeWorkerId: workerIdOf(4) })
      const call = plane.calls.at(-1)
      expect(call?.workerId).toBe('3')
      call?.prefilled()
      expect(plane.calls.at(-1)?.workerId).toBe('4')
    }
  })

  it('one worker for both phases - runs aggregated there', () => {
    const { plane, send } = buildModel(FOUR)
    const { sink } = send({ backendWorkerId: workerIdOf(4) })
    expect(plane.call(0).workerId).toBe('4')
    expect(sink.routed[0]?.phase).toBe('aggregated')
  })

  it('direct mode without an id - the error names the header', () => {
    const { send } = buildModel(FOUR, { mode: 'direct' })
    expect(send().sink.errors[0]?.message).toContain('x-dynamo-prefill-instance-id')
    const ids = { prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(2) }
    expect(send(ids).sink.errors).toHaveLength(0)
  })

  it('sessions - each phase has its own binding', () => {
    const { plane, send } = buildModel(FOUR, { session: { ttlSeconds: 60 } })
    const run = (sessionId: string): string => {
      send({ sessionId })
      const prefill = plane.calls.at(-1)
      prefill?.prefilled()
      plane.calls.at(-1)?.finish()
      return `${prefill?.workerId} ${plane.calls.at(-1)?.workerId}`
    }
    const [a, b] = [run('a'), run('b')]
    for (let i = 0; i < 4; i++) {
      expect(run('a')).toBe(a)
      expect(run('b')).toBe(b)
    }
  })

  it('cursor - advances exactly once per request and pool', () => {
    const { plane, send } = buildModel(FOUR, { mode: 'round-robin' })
    plane.onSend = (call) => {
      if (call.request.stop.maxTokens === 1) call.prefilled()
    }
    for (let i = 0; i < 4; i++) send()
    expect(plane.calls.map(({ workerId }) => workerId).join('')).toBe('12341234')
  })
})
