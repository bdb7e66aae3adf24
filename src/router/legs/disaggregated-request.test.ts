import { describe, expect, it } from 'vitest'

import { BOOTSTRAP, buildModel, offerOf, PD } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { seededRandom, workerIdOf } from '../../base/index.ts'
import { bootstrapRoom } from './leg-requests.ts'

const OFFER = offerOf('o')

describe('PrefillRouter: bootstrap path', () => {
  const CARDS = [BOOTSTRAP, card(2, 'decode')]

  it('both legs at once - decode is routed while prefill runs, with the same bootstrap address', () => {
    const { plane, send, load } = buildModel(CARDS)
    const { sink } = send()
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1', '2'])
    const [prefill, decode] = plane.calls.map((call) => call.request)
    expect(prefill?.bootstrap).toMatchObject({ host: 'p', port: 9 })
    expect(decode?.bootstrap).toEqual(prefill?.bootstrap)
    expect(sink.routed.map(({ phase, workerId }) => `${phase} ${workerId}`)).toEqual([
      'prefill 1',
      'decode 2',
    ])
    plane.call(0).finish('length')
    expect(sink.phases.map(({ kind }) => kind)).toContain('decodeQueued')
    plane.call(1).token()
    plane.call(1).finish()
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('attribution - with two requests, each client gets its own phases and the cursor advances by one', () => {
    const more = [card(3, 'prefill', { engine: BOOTSTRAP.engine }), card(4, 'decode')]
    const { plane, send, router } = buildModel([...CARDS, ...more], { mode: 'round-robin' })
    const sinks = [send(), send()].map(({ sink }) => sink)
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1', '2', '3', '4'])
    const legs = (i: number) =>
      sinks[i]?.routed.map(({ phase, workerId }) => `${phase} ${workerId}`)
    expect([legs(0), legs(1)]).toEqual([
      ['prefill 1', 'decode 2'],
      ['prefill 3', 'decode 4'],
    ])
    const decodes = [plane.call(1), plane.call(3)].map(({ request }) => request)
    expect(decodes.map(({ routing }) => routing.prefillWorkerId)).toEqual(['1', '3'])
    expect(decodes[0]?.bootstrap?.room).not.toBe(decodes[1]?.bootstrap?.room)
    expect(router.status().disaggregation.disaggregated).toBe(2)
  })

  it('bootstrap room - encodes the rank, and is below 2^63', () => {
    const random = seededRandom(3)
    for (let i = 0; i < 200; i++) {
      const rank = i % 8
      const room = bootstrapRoom(random, rank, 8)
      expect(room % 8n).toBe(BigInt(rank))
      expect(room < 1n << 63n).toBe(true)
    }
  })

  it('prefill fails - decode ends at once, and the error names the stage', () => {
    const { plane, send, load } = buildModel(CARDS)
    const { sink } = send()
    plane.call(0).fail('backend.engine_shutdown')
    expect(plane.call(1).cancels).toEqual(['kill'])
    expect(sink.errors[0]?.data).toMatchObject({ stage: 'prefill', workerId: '1' })
    plane.call(1).token()
    expect(sink.tokens).toEqual([])
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('decode fails - prefill is stopped, and the error names the stage', () => {
    const { plane, send, load } = buildModel(CARDS)
    const { sink } = send()
    plane.call(1).fail('transport.disconnected')
    expect(plane.call(0).cancels).toEqual(['stop'])
    expect(sink.errors[0]?.data['stage']).toBe('decode')
    plane.call(0).finish('cancelled')
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('decode has answered while prefill hangs - after the grace time prefill is stopped, then killed', () => {
    const { plane, send, clock, load } = buildModel(CARDS, { deadlines: { cancelMs: 50 } })
    const { sink } = send()
    plane.call(1).token()
    plane.call(1).finish()
    expect(sink.ends).toBe(1)
    clock.advance(49)
    expect(plane.call(0).cancels).toEqual([])
    clock.advance(1)
    expect(plane.call(0).cancels).toEqual(['stop'])
    clock.advance(50)
    expect(plane.call(0).cancels).toEqual(['stop', 'kill'])
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('prefill ends within the grace time after decode - it is not cancelled', () => {
    const { plane, send, clock, load } = buildModel(CARDS, { deadlines: { cancelMs: 50 } })
    const { sink } = send()
    plane.call(1).token()
    plane.call(1).finish()
    clock.advance(20)
    plane.call(0).finish('length')
    clock.advance(100)
    expect(plane.call(0).cancels).toEqual([])
    expect([sink.ends, load()]).toEqual([1, 0])
  })

  it('no decode worker is eligible - prefill is stopped and the client gets the error', () => {
    const { plane, send } = buildModel(CARDS, {
      filters: [({ card: c }) => (c.mode === 'decode' ? 'no' : null)],
    })
    const { sink } = send()
    expect(plane.calls).toHaveLength(1)
    expect(plane.call(0).cancels).toEqual(['stop'])
    expect(sink.errors).toHaveLength(1)
  })
})

describe('PrefillRouter: an offer before the prompt is completely computed', () => {
  const CARDS = [card(1, 'prefill'), card(3, 'prefill'), card(2, 'decode')]

  function halfWay() {
    const model = buildModel(CARDS)
    const { sink, handle } = model.send()
    const prefill = model.plane.call(0)
    prefill.meets(OFFER)
    return { ...model, sink, handle, prefill, decode: model.plane.call(1) }
  }

  it('decode is sent at once with the offer; the end of the prefill changes nothing', () => {
    const { sink, prefill, decode, plane, load } = halfWay()
    expect(decode.request.prefillResult?.kvOffer).toEqual(OFFER)
    expect(sink.ends).toBe(0)
    prefill.prefilled({ kvOffer: OFFER })
    decode.token()
    decode.finish()
    expect([sink.ends, sink.errors.length, plane.calls.length]).toEqual([1, 0, 2])
    expect(load()).toBe(0)
  })

  it('the prefill worker is lost - its decode is abandoned and another prefill is tried', () => {
    const { sink, prefill, decode, plane, router, load } = halfWay()
    prefill.fail('transport.disconnected')
    expect(decode.cancels).toEqual(['kill'])
    decode.finish('cancelled')
    const second = plane.call(2)
    expect([second.workerId === prefill.workerId, second.workerId === '2']).toEqual([false, false])
    second.meets(OFFER)
    second.prefilled({ kvOffer: OFFER })
    plane.call(3).finish()
    expect([sink.ends, sink.errors.length]).toEqual([1, 0])
    expect(router.status().disaggregation.disaggregated).toBe(1)
    expect(load()).toBe(0)
  })

  it.each(['fails', 'ends without its hand-over'])(
    'decode held all of it and answers, the prefill %s - decode goes on',
    (how) => {
      const { sink, prefill, decode, plane, load } = halfWay()
      decode.token()
      if (how === 'fails') prefill.fail('transport.disconnected')
      else prefill.prefilled({})
      decode.token()
      decode.finish()
      expect([sink.tokens.length, sink.ends, sink.errors.length]).toEqual([2, 1, 0])
      expect([decode.cancels.length, plane.calls.length]).toEqual([0, 2])
      expect(load()).toBe(0)
    },
  )

  it('the prefill ends without its hand-over - the request continues aggregated', () => {
    const { sink, prefill, decode, plane, load } = halfWay()
    prefill.prefilled({})
    expect(decode.cancels).toEqual(['kill'])
    decode.fail('kv.offer_gone')
    expect(plane.call(2)).toMatchObject({ workerId: '2', request: { stop: {} } })
    plane.call(2).finish()
    expect([sink.ends, sink.errors.length]).toEqual([1, 0])
    expect(load()).toBe(0)
  })

  it('decode fails - prefill is stopped, and the client gets one error', () => {
    const { sink, prefill, decode, load } = halfWay()
    decode.fail('transport.disconnected')
    expect(prefill.cancels).toEqual(['stop'])
    prefill.finish('cancelled')
    expect([sink.ends, sink.errors[0]?.code]).toEqual([1, 'transport.disconnected'])
    expect(load()).toBe(0)
  })

  it.each(['fails', 'ends without its hand-over'])(
    'decode fails, then the prefill %s - no other attempt is made, and the client gets one error',
    (how) => {
      const { sink, prefill, decode, plane, load } = halfWay()
      decode.fail('transport.disconnected')
      if (how === 'fails') prefill.fail('transport.disconnected')
      else prefill.prefilled({})
      expect(plane.calls.length).toBe(2)
      expect([sink.ends, sink.errors[0]?.code]).toEqual([1, 'transport.disconnected'])
      expect(load()).toBe(0)
    },
  )

  it('the client leaves - both legs are stopped', () => {
    const { sink, handle, prefill, decode, load } = halfWay()
    handle.cancel('stop')
    expect([decode.cancels, prefill.cancels]).toEqual([['stop'], ['stop']])
    prefill.finish('cancelled')
    decode.finish('cancelled')
    expect([sink.ends, sink.finish]).toEqual([1, 'cancelled'])
    expect(load()).toBe(0)
  })
})

describe('PrefillRouter: failures', () => {
  const THREE = [card(1, 'prefill'), card(3, 'prefill'), card(2, 'decode')]

  it('transport failure before decode - another prefill worker is tried', () => {
    const { plane, send, router, load } = buildModel(THREE)
    const { sink } = send()
    const first = plane.call(0)
    first.fail('transport.cannot_connect')
    expect(plane.call(1).workerId).not.toBe(first.workerId)
    plane.call(1).prefilled()
    plane.call(2).finish()
    expect(sink.ends).toBe(1)
    expect(router.status().disaggregation.prefillRetries).toBe(1)
    expect(load()).toBe(0)
  })

  it('a failure inside send - the retry is not lost', () => {
    const { plane, send, load } = buildModel(THREE)
    plane.onSend = (call) => {
      if (plane.calls.length === 1) call.fail('transport.cannot_connect')
    }
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(plane.call(1).cancels).toEqual(['stop'])
    plane.call(1).finish('cancelled')
    expect(sink.finish).toBe('cancelled')
    expect(load()).toBe(0)
  })

  it('every prefill fails - falls back to aggregated and records it', () => {
    const { plane, send, router, load } = buildModel(THREE)
    const { sink, sent } = send()
    plane.call(0).fail('transport.disconnected')
    plane.call(1).fail('transport.disconnected')
    expect(plane.call(2).workerId).toBe('2')
    plane.call(2).finish()
    expect(sink.routed.at(-1)?.phase).toBe('aggregated')
    expect(router.status().disaggregation.aggregatedBy).toEqual({
      'prefill failed on every worker': 1,
    })
    expect(router.explain(sent.requestId)?.at(-1)?.disaggregation).toContain('prefill failed')
    expect(load()).toBe(0)
  })

  it('every prefill fails, enforced - the request fails', () => {
    const { plane, send } = buildModel(THREE, { enforceDisaggregation: true })
    const { sink } = send()
    plane.call(0).fail('transport.disconnected')
    plane.call(1).fail('transport.disconnected')
    expect(plane.calls).toHaveLength(2)
    expect(sink.errors).toHaveLength(1)
  })

  it('an invalid request - is not retried', () => {
    const { plane, send } = buildModel(THREE)
    const { sink } = send()
    plane.call(0).fail('backend.invalid_argument')
    expect(plane.calls).toHaveLength(1)
    expect(sink.errors[0]?.code).toBe('backend.invalid_argument')
  })

  it('back-pressure - is reported as exhausted capacity, never a silent fallback', () => {
    const { plane, send } = buildModel(PD, { busy: { activePrefillTokens: 5 } })
    send()
    const { sink } = send()
    expect(sink.errors[0]?.code).toBe('capacity.pool_exhausted')
    expect(sink.errors[0]?.data).toMatchObject({
      phase: 'prefill',
      limit: 5,
      current: 16,
      retryAfterMs: 1000,
    })
    expect(plane.calls).toHaveLength(1)
  })

  it('deadlines - each stage has one, and the error names it', () => {
    const deadlines = { prefillMs: 100, firstTokenMs: 200, streamIdleMs: 300 }
    const { plane, send, clock, load } = buildModel(PD, { deadlines })
    const slowPrefill = send().sink
    clock.advance(100)
    expect(slowPrefill.errors[0]?.code).toBe('request.deadline_exceeded')
    expect(slowPrefill.errors[0]?.data['stage']).toBe('prefill')
    expect(plane.call(0).cancels).toEqual(['kill'])
    const slowDecode = send().sink
    plane.call(1).prefilled()
    clock.advance(200)
    expect(slowDecode.errors[0]?.data['stage']).toBe('first token')
    const stalled = send().sink
    plane.call(3).prefilled()
    for (let i = 0; i < 5; i++) {
      plane.call(4).token()
      clock.advance(250)
    }
    expect(stalled.errors).toHaveLength(0)
    clock.advance(600)
    expect(stalled.errors[0]?.data['stage']).toBe('stream')
    expect(load()).toBe(0)
    expect(clock.timerCount).toBe(0)
  })
})

describe('PrefillRouter: an offer that will not be fetched', () => {
  it('decode is refused - the offer is released at once', () => {
    const { plane, send, router } = buildModel(PD)
    const { sink } = send()
    router.fleet.workerLeft(workerIdOf(2), 'gone')
    plane.call(0).prefilled({ kvOffer: OFFER })
    expect(sink.errors[0]?.code).toBe('backend.worker_unavailable')
    expect(plane.released).toEqual(['1 o'])
  })

  it('decode fails - the offer is released, whether it was fetched or not', () => {
    const { plane, send } = buildModel(PD)
    const { sink } = send()
    plane.call(0).prefilled({ kvOffer: OFFER })
    plane.call(1).fail('transport.cannot_connect')
    expect(sink.ends).toBe(1)
    expect(plane.released).toEqual(['1 o'])
  })

  it('the first token is the end - the offer is released', () => {
    const { plane, send } = buildModel(PD)
    const { sink } = send()
    plane.call(0).finish('eos', { tokenIds: [7], prefillResult: { kvOffer: OFFER } })
    expect(sink.ends).toBe(1)
    expect(plane.released).toEqual(['1 o'])
  })

  it('decode answers - the offer was fetched and is not released', () => {
    const { plane, send } = buildModel(PD)
    send()
    plane.call(0).prefilled({ kvOffer: OFFER })
    plane.call(1).token()
    plane.call(1).finish()
    expect(plane.released).toEqual([])
  })
})

describe('PrefillRouter: cancellation', () => {
  it('during prefill - it is stopped, and the reply ends with cancelled', () => {
    const { plane, send, load } = buildModel(PD)
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(plane.call(0).cancels).toEqual(['stop'])
    plane.call(0).finish('cancelled')
    expect(sink.finish).toBe('cancelled')
    expect(plane.calls).toHaveLength(1)
    expect(load()).toBe(0)
  })

  it('the client left and KV is offered - decode is told and then stopped, so that no block leaks', () => {
    const { plane, send, load } = buildModel(PD)
    const { sink, handle } = send()
    handle.cancel('kill')
    expect(sink.finish).toBe('cancelled')
    expect(plane.call(0).cancels).toEqual(['stop'])
    plane.call(0).prefilled()
    expect(plane.call(1).request.prefillResult).toBeDefined()
    expect(plane.call(1).cancels).toEqual(['stop'])
    plane.call(1).token()
    plane.call(1).finish('cancelled')
    expect(sink.tokens).toEqual([])
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('both legs run - decode is stopped first, then prefill', () => {
    const { plane, send, load } = buildModel([BOOTSTRAP, card(2, 'decode')])
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(plane.call(1).cancels).toEqual(['stop'])
    expect(plane.call(0).cancels).toEqual(['stop'])
    plane.call(1).finish('cancelled')
    plane.call(0).finish('cancelled')
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('a worker that ignores the stop - is killed after the grace time', () => {
    const { plane, send, clock, load } = buildModel(PD, { deadlines: { cancelMs: 50 } })
    const { sink, handle } = send()
    plane.call(0).prefilled()
    handle.cancel('stop')
    clock.advance(50)
    expect(plane.call(1).cancels).toEqual(['stop', 'kill'])
    expect(sink.finish).toBe('cancelled')
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })
})
