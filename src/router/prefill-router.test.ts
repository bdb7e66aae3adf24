import { describe, expect, it } from 'vitest'

import { ManualClock } from '../../test/router/manual-clock.ts'
import { card, RecordingSink, request, ScriptedPlane } from '../../test/router/scripted-plane.ts'
import { seededRandom, workerIdOf } from '../base/index.ts'
import { hashBlocks } from '../kv/index.ts'
import type { KvEventBatch } from '../kv/index.ts'
import type { RoutingHints, WorkerCard } from '../request/index.ts'
import { createModelRouter } from './index.ts'
import type { RouterOptions } from './index.ts'
import { bootstrapRoom } from './leg-requests.ts'

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

describe('PrefillRouter: prefill request', () => {
  it('minimum length - is lowered with the limit, and only there', () => {
    const { plane, router } = build(PD)
    const sent = request(16, {}, { stop: { maxTokens: 50, minTokens: 20 } })
    router.service.send(sent, new RecordingSink())
    expect(plane.call(0).request.stop).toEqual({ maxTokens: 1, minTokens: 1 })
    plane.call(0).prefilled()
    expect(plane.call(1).request.stop).toEqual({ maxTokens: 50, minTokens: 20 })
  })

  it('trace link - both legs carry it', () => {
    const { plane, router } = build(PD)
    router.service.send(request(16, {}, { traceparent: '00-a-b-01' }), new RecordingSink())
    plane.call(0).prefilled()
    expect(plane.calls.map((call) => call.request.traceparent)).toEqual(['00-a-b-01', '00-a-b-01'])
  })

  it('first token is the end - it is the answer, without the hand-over', () => {
    const { plane, send, load } = build(PD)
    const { sink } = send()
    plane.call(0).sink.onChunk({ tokenIds: [2], finish: 'eos', prefillResult: {} })
    expect(sink.tokens).toEqual([2])
    expect(sink.chunks[0]).toEqual({ tokenIds: [2], finish: 'eos' })
    expect(plane.calls).toHaveLength(1)
    expect(load()).toBe(0)
  })

  it('no hand-over - decode computes the prompt itself, and that is counted', () => {
    const { plane, send, router } = build(PD)
    send()
    plane.call(0).finish('length')
    expect(plane.call(1).request.prefillResult).toBeUndefined()
    expect(router.status().disaggregation.aggregatedBy).toEqual({ 'prefill gave no hand-over': 1 })
  })

  it('no hand-over, enforced - the request fails and names the stage', () => {
    const { plane, send } = build(PD, { enforceDisaggregation: true })
    const { sink } = send()
    plane.call(0).finish('length')
    expect(sink.errors[0]?.code).toBe('kv.transfer_failed')
    expect(sink.errors[0]?.data['stage']).toBe('prefill')
  })
})

describe('PrefillRouter: preselected workers', () => {
  const FOUR = [card(1, 'prefill'), card(2, 'decode'), card(3, 'prefill'), card(4, 'decode')]

  it('preselected - both legs go where the request says', () => {
    const { plane, send } = build(FOUR)
    for (let i = 0; i < 3; i++) {
      send({ prefillWorkerId: workerIdOf(3), decodeWorkerId: workerIdOf(4) })
      const call = plane.calls.at(-1)
      expect(call?.workerId).toBe('3')
      call?.prefilled()
      expect(plane.calls.at(-1)?.workerId).toBe('4')
    }
  })

  it('preselected prefill that is gone - an error, not another worker', () => {
    const { plane, send } = build(FOUR)
    const { sink } = send({ prefillWorkerId: workerIdOf(9) })
    expect(sink.errors[0]?.code).toBe('backend.worker_unavailable')
    expect(plane.calls).toHaveLength(0)
  })

  it('one worker for all - goes aggregated to it', () => {
    const { plane, send } = build(FOUR)
    const { sink } = send({ backendWorkerId: workerIdOf(4) })
    expect(plane.call(0).workerId).toBe('4')
    expect(sink.routed[0]?.phase).toBe('aggregated')
  })

  it('direct mode without an id - an error that names the header', () => {
    const { send } = build(FOUR, { mode: 'direct' })
    expect(send().sink.errors[0]?.message).toContain('x-dynamo-prefill-instance-id')
    const ids = { prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(2) }
    expect(send(ids).sink.errors).toHaveLength(0)
  })

  it('cursor - advances exactly once per request and pool', () => {
    const { plane, send } = build(FOUR, { mode: 'round-robin' })
    plane.onSend = (call) => {
      if (call.request.stop.maxTokens === 1) call.prefilled()
    }
    for (let i = 0; i < 4; i++) send()
    expect(plane.calls.map(({ workerId }) => workerId).join('')).toBe('12341234')
  })
})

describe('PrefillRouter: bootstrap path', () => {
  const CARDS = [BOOTSTRAP, card(2, 'decode')]

  it('both at once - decode is routed while prefill runs, with the same meeting point', () => {
    const { plane, send, load } = build(CARDS)
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
    expect(sink.prefillDoneCount).toBe(1)
    plane.call(1).token()
    plane.call(1).finish()
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('room - names the rank, and is below 2^63', () => {
    const random = seededRandom(3)
    for (let i = 0; i < 200; i++) {
      const rank = i % 8
      const room = bootstrapRoom(random, rank, 8)
      expect(room % 8n).toBe(BigInt(rank))
      expect(room < 1n << 63n).toBe(true)
    }
  })

  it('prefill fails - decode ends at once, and the error names the stage', () => {
    const { plane, send, load } = build(CARDS)
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
    const { plane, send, load } = build(CARDS)
    const { sink } = send()
    plane.call(1).fail('transport.disconnected')
    expect(plane.call(0).cancels).toEqual(['stop'])
    expect(sink.errors[0]?.data['stage']).toBe('decode')
    plane.call(0).finish('cancelled')
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('no decode worker may be taken - prefill is stopped and the client told', () => {
    const { plane, send } = build(CARDS, {
      filters: [({ card: c }) => (c.mode === 'decode' ? 'no' : null)],
    })
    const { sink } = send()
    expect(plane.calls).toHaveLength(1)
    expect(plane.call(0).cancels).toEqual(['stop'])
    expect(sink.errors).toHaveLength(1)
  })
})

describe('PrefillRouter: failures', () => {
  const THREE = [card(1, 'prefill'), card(3, 'prefill'), card(2, 'decode')]

  it('transport failure before decode - another prefill worker is tried', () => {
    const { plane, send, router, load } = build(THREE)
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

  it('failure at once, inside send - the retry is not lost', () => {
    const { plane, send, load } = build(THREE)
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

  it('every prefill fails - falls back to aggregated and says so', () => {
    const { plane, send, router, load } = build(THREE)
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
    const { plane, send } = build(THREE, { enforceDisaggregation: true })
    const { sink } = send()
    plane.call(0).fail('transport.disconnected')
    plane.call(1).fail('transport.disconnected')
    expect(plane.calls).toHaveLength(2)
    expect(sink.errors).toHaveLength(1)
  })

  it('a fault of the request - is not tried elsewhere', () => {
    const { plane, send } = build(THREE)
    const { sink } = send()
    plane.call(0).fail('backend.invalid_argument')
    expect(plane.calls).toHaveLength(1)
    expect(sink.errors[0]?.code).toBe('backend.invalid_argument')
  })

  it('back-pressure - is an exhausted capacity, never a silent fall-back', () => {
    const { plane, send } = build(PD, { busy: { activePrefillTokens: 5 } })
    send()
    const { sink } = send()
    expect(sink.errors[0]?.code).toBe('capacity.pool_exhausted')
    expect(sink.errors[0]?.data).toMatchObject({ phase: 'prefill', retryAfterMs: 1000 })
    expect(plane.calls).toHaveLength(1)
  })

  it('deadlines - each stage has one, and the error names it', () => {
    const deadlines = { prefillMs: 100, firstTokenMs: 200, streamIdleMs: 300 }
    const { plane, send, clock, load } = build(PD, { deadlines })
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

describe('PrefillRouter: cancellation', () => {
  it('while prefill computes - it is stopped, and the reply is cancelled', () => {
    const { plane, send, load } = build(PD)
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(plane.call(0).cancels).toEqual(['stop'])
    plane.call(0).finish('cancelled')
    expect(sink.finish).toBe('cancelled')
    expect(plane.calls).toHaveLength(1)
    expect(load()).toBe(0)
  })

  it('client has left, KV is there - decode is told and then stopped, so that no block leaks', () => {
    const { plane, send, load } = build(PD)
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

  it('both legs run - decode is told to stop first, then prefill', () => {
    const { plane, send, load } = build([BOOTSTRAP, card(2, 'decode')])
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(plane.call(1).cancels).toEqual(['stop'])
    expect(plane.call(0).cancels).toEqual(['stop'])
    plane.call(1).finish('cancelled')
    plane.call(0).finish('cancelled')
    expect(sink.ends).toBe(1)
    expect(load()).toBe(0)
  })

  it('a worker that does not listen - is killed after the grace time', () => {
    const { plane, send, clock, load } = build(PD, { deadlines: { cancelMs: 50 } })
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

describe('PrefillRouter: topology', () => {
  const rack = (id: number, mode: 'prefill' | 'decode', value?: string): WorkerCard =>
    card(id, mode, value === undefined ? {} : { topology: { rack: value } })
  const required = { topology: { domain: 'rack', enforcement: 'required' } } as const

  it('required - decode stays in the domain of the chosen prefill worker', () => {
    const { plane, send } = build(
      [rack(1, 'prefill', 'b'), rack(2, 'decode', 'a'), rack(3, 'decode', 'b')],
      required,
    )
    for (let i = 0; i < 3; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
      expect(plane.calls.at(-1)?.workerId).toBe('3')
    }
  })

  it('required, prefill worker without a place - fails closed before prefill runs', () => {
    const { plane, send, load } = build([rack(1, 'prefill'), rack(2, 'decode', 'a')], required)
    const { sink } = send()
    expect(plane.calls).toHaveLength(0)
    expect(sink.errors[0]?.data).toMatchObject({ stage: 'prefill', domain: 'rack' })
    expect(load()).toBe(0)
  })

  it('required, no decode worker in the domain - fails closed before prefill runs', () => {
    const { plane, send } = build([rack(1, 'prefill', 'b'), rack(2, 'decode', 'a')], required)
    expect(send().sink.errors).toHaveLength(1)
    expect(plane.calls).toHaveLength(0)
  })

  it('preferred - cheaper in the domain, elsewhere if need be', () => {
    const { plane, send } = build(
      [rack(1, 'prefill', 'b'), rack(2, 'decode', 'a'), rack(3, 'decode', 'b')],
      { topology: { domain: 'rack', enforcement: 'preferred', preferredWeight: 5 } },
    )
    send()
    plane.calls.at(-1)?.prefilled()
    expect(plane.calls.at(-1)?.workerId).toBe('3')
    expect(plane.calls.at(-1)?.request.routing.preferredTaints).toEqual({
      'dynamo.topology/rack=b': 5,
    })
  })
})

describe('PrefillRouter: query only', () => {
  it('both ids - nothing is booked and no engine is called', () => {
    const { plane, send, load, router } = build(PD)
    const { sink } = send({ queryOnly: true })
    expect(plane.calls).toHaveLength(0)
    expect(load()).toBe(0)
    expect(sink.chunks[0]?.engineData).toMatchObject({
      worker_id: { prefill_worker_id: '1', decode_worker_id: '2' },
    })
    expect(sink.routed.map(({ phase }) => phase)).toEqual(['prefill', 'decode'])
    expect(router.status().prefill.decisions).toBe(0)
  })

  it('not active - the one worker is both', () => {
    const { send } = build([card(2)])
    expect(send({ queryOnly: true }).sink.chunks[0]?.engineData).toMatchObject({
      worker_id: { prefill_worker_id: '2', decode_worker_id: '2' },
    })
  })
})

describe('PrefillRouter: conditional disaggregation', () => {
  const conditional = { enabled: true, effectiveIslThreshold: 32 }

  it('short prompt - stays on the decode worker, and the record says why', () => {
    const { plane, send, router } = build(PD, {
      conditional: { ...conditional, effectiveIslRatioThreshold: 1 },
      overlapScoreCredit: 1,
    })
    router.fleet.kvEvents(workerIdOf(2), stored(8))
    const { sent, sink } = send({}, 16)
    expect(plane.call(0).workerId).toBe('2')
    expect(sink.routed[0]?.phase).toBe('aggregated')
    expect(router.explain(sent.requestId)?.[0]?.disaggregation).toBe(
      'aggregated: short: 8 of 16 prompt tokens are uncached',
    )
    expect(router.status().disaggregation.aggregatedBy).toEqual({ 'conditional (isl_bounding)': 1 })
  })

  it('long prompt - takes both legs, and keeps the overlap credit for decode', () => {
    const { plane, send } = build(PD, { conditional })
    send({}, 64)
    expect(plane.call(0).workerId).toBe('1')
    plane.call(0).prefilled()
    expect(plane.call(1).request.routing.overrides).not.toHaveProperty('overlapScoreCredit')
  })

  it('predicted cost - compares both ways', () => {
    const { plane, send } = build(PD, {
      conditional: { enabled: true, policy: 'predicted_cost', transferTokensFixed: 100 },
    })
    send({}, 64)
    expect(plane.call(0).workerId).toBe('2')
    for (let i = 0; i < 3; i++) send({}, 64)
    expect(plane.calls.map(({ workerId }) => workerId)).toContain('1')
  })
})

describe('PrefillRouter: self-check', () => {
  it('in words - events from k of n workers, share of disaggregated requests with reasons', () => {
    const { plane, send, router } = build([...PD, card(3, 'prefill')])
    router.fleet.kvEvents(workerIdOf(1), stored(8))
    send()
    plane.call(0).prefilled()
    send({ backendWorkerId: workerIdOf(2) })
    expect(router.status().selfCheck).toEqual([
      'prefill: KV events from 1 of 2 workers',
      'decode: KV events from 0 of 0 workers',
      'disaggregation (active) taken in 50 % of 2 requests; aggregated: pinned to one worker (1)',
    ])
    expect(router.status().warnings).toEqual([
      'KV routing of the prefill pool sees no events from 1 of 2 workers',
    ])
  })

  it('no decode worker - an aggregated pool is not handed KV, and the reason is told', () => {
    const { send, router } = build([card(1, 'prefill'), card(2, 'agg')])
    expect(send().sink.routed[0]?.phase).toBe('aggregated')
    expect(router.status().warnings.join()).toContain('no decode worker is there')
  })

  it('explain - every decision of a request, with every term', () => {
    const { plane, send, router } = build(PD)
    const { sent } = send()
    plane.call(0).prefilled()
    const records = router.explain(sent.requestId) ?? []
    expect(records.map(({ phase }) => phase)).toEqual(['prefill', 'decode'])
    expect(records[0]?.candidates[0]).toMatchObject({
      workerId: '1',
      cost: 8,
      prefillBlocks: 4,
      decodeBlocks: 4,
    })
    expect(router.explain('nobody')).toBeNull()
  })
})

function stored(tokens: number): KvEventBatch {
  const ids = Uint32Array.from({ length: tokens }, (_, i) => i)
  const hashes = hashBlocks(ids, 4)
  return {
    sequence: 0,
    dpRank: 0,
    events: [
      {
        kind: 'stored',
        parent: null,
        hashes: hashes.sequence,
        localHashes: hashes.local,
        tier: 'device',
      },
    ],
  }
}
