import { describe, expect, it } from 'vitest'

import { buildModel, PD, stored, tokensFrom } from '../../test/router/model-fixture.ts'
import { card } from '../../test/router/scripted-plane.ts'
import { workerIdOf } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'

describe('PrefillRouter: topology', () => {
  const rack = (id: number, mode: 'prefill' | 'decode', value?: string): WorkerCard =>
    card(id, mode, value === undefined ? {} : { topology: { rack: value } })
  const required = { topology: { domain: 'rack', enforcement: 'required' } } as const

  it('required - decode stays in the domain of the chosen prefill worker', () => {
    const { plane, send } = buildModel(
      [rack(1, 'prefill', 'b'), rack(2, 'decode', 'a'), rack(3, 'decode', 'b')],
      required,
    )
    for (let i = 0; i < 3; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
      expect(plane.calls.at(-1)?.workerId).toBe('3')
    }
  })

  it('required, prefill worker without a domain - fails closed before prefill runs', () => {
    const { plane, send, load } = buildModel([rack(1, 'prefill'), rack(2, 'decode', 'a')], required)
    const { sink } = send()
    expect(plane.calls).toHaveLength(0)
    expect(sink.errors[0]?.data).toMatchObject({ stage: 'prefill', domain: 'rack' })
    expect(load()).toBe(0)
  })

  it('required, no decode worker in the domain - fails closed before prefill runs', () => {
    const { plane, send } = buildModel([rack(1, 'prefill', 'b'), rack(2, 'decode', 'a')], required)
    expect(send().sink.errors).toHaveLength(1)
    expect(plane.calls).toHaveLength(0)
  })

  it('required - cannot serve while no prefill worker has a partner, unless requests may run in one leg', () => {
    const apart = [rack(1, 'prefill', 'b'), rack(2, 'decode', 'a')]
    const { router } = buildModel(apart, required)
    expect(router.canServeRequests()).toBe(false)
    router.fleet.workerJoined(rack(3, 'decode', 'b'))
    expect(router.canServeRequests()).toBe(true)
    expect(buildModel(apart).router.canServeRequests()).toBe(true)
    const conditional = { ...required, conditional: { enabled: true } }
    expect(buildModel(apart, conditional).router.canServeRequests()).toBe(true)
  })

  it.each(['prefill', 'decode'] as const)(
    'required, the %s worker of a session leaves - the session moves to another domain',
    (leaves) => {
      const { plane, send, router } = buildModel(
        [
          rack(1, 'prefill', 'a'),
          rack(2, 'decode', 'a'),
          rack(3, 'prefill', 'b'),
          rack(4, 'decode', 'b'),
        ],
        { ...required, session: { ttlSeconds: 60 } },
      )
      const run = (): string => {
        const before = plane.calls.length
        const { sink } = send({ sessionId: 's' })
        plane.calls.at(-1)?.prefilled()
        plane.calls.at(-1)?.finish()
        expect(sink.errors).toEqual([])
        return plane.calls
          .slice(before)
          .map(({ workerId }) => workerId)
          .join(' ')
      }
      const pair = run()
      const [prefill = '', decode = ''] = pair.split(' ')
      expect(run()).toBe(pair)
      const lost = leaves === 'prefill' ? prefill : decode
      router.fleet.workerLeft(workerIdOf(Number(lost)), 'closed')
      const other = pair === '1 2' ? '3 4' : '1 2'
      expect(run()).toBe(other)
      expect(run()).toBe(other)
    },
  )

  it('preferred - cheaper in the domain, elsewhere if necessary', () => {
    const { plane, send } = buildModel(
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
    const { plane, send, load, router } = buildModel(PD)
    const { sink } = send({ queryOnly: true })
    expect(plane.calls).toHaveLength(0)
    expect(load()).toBe(0)
    expect(sink.chunks[0]?.engineData).toMatchObject({
      worker_id: { prefill_worker_id: '1', decode_worker_id: '2' },
    })
    expect(sink.routed.map(({ phase }) => phase)).toEqual(['prefill', 'decode'])
    expect(router.status().prefill.decisions).toBe(0)
  })

  it('not active - one worker is returned for both phases', () => {
    const { send } = buildModel([card(2)])
    expect(send({ queryOnly: true }).sink.chunks[0]?.engineData).toMatchObject({
      worker_id: { prefill_worker_id: '2', decode_worker_id: '2' },
    })
  })
})

describe('PrefillRouter: conditional disaggregation', () => {
  const conditional = { enabled: true, effectiveIslThreshold: 32 }

  it('short prompt - stays on the decode worker, and the record says why', () => {
    const { plane, send, router } = buildModel(PD, {
      conditional: { ...conditional, effectiveIslRatioThreshold: 1 },
      overlapScoreCredit: 1,
    })
    router.fleet.kvEvents(workerIdOf(2), stored(8))
    const { sent, sink } = send({}, 16)
    expect(plane.call(0).workerId).toBe('2')
    expect(sink.routed[0]).toMatchObject({ phase: 'aggregated', bypassesPrefill: true })
    expect(router.explain(sent.requestId)?.[0]?.disaggregation).toBe(
      'aggregated: short: 8 of 16 prompt tokens are uncached',
    )
    expect(router.explain(sent.requestId)?.[0]?.outcome).toMatchObject({
      reason: 'prefill bypassed',
    })
    expect(router.status().disaggregation.aggregatedBy).toEqual({ 'conditional (isl_bounding)': 1 })
  })

  it('long prompt - uses both legs, and keeps the overlap credit for decode', () => {
    const { plane, send } = buildModel(PD, { conditional })
    send({}, 64)
    expect(plane.call(0).workerId).toBe('1')
    plane.call(0).prefilled()
    expect(plane.call(1).request.routing.overrides).not.toHaveProperty('overlapScoreCredit')
  })

  it('predicted cost - compares both paths', () => {
    const { plane, send } = buildModel(PD, {
      conditional: { enabled: true, policy: 'predicted_cost', transferTokensFixed: 100 },
    })
    send({}, 64)
    expect(plane.call(0).workerId).toBe('2')
    for (let i = 1; i < 4; i++) send({}, tokensFrom(1000 * i, 64))
    expect(plane.calls.map(({ workerId }) => workerId)).toContain('1')
  })
})

describe('PrefillRouter: conversations', () => {
  it('conditional - a follow-up goes to the decode worker that received the KV', () => {
    const { plane, send } = buildModel([...PD, card(3, 'decode')], {
      conditional: { enabled: true, effectiveIslThreshold: 32 },
    })
    send({}, 64)
    plane.call(0).prefilled()
    plane.call(1).finish()
    const { sink } = send({}, 80)
    expect(sink.routed.map(({ phase, workerId }) => [phase, workerId])).toEqual([
      ['aggregated', plane.call(1).workerId],
    ])
    expect(sink.routed[0]?.overlapBlocks).toBe(16)
  })
})

describe('cached tokens that an engine reports', () => {
  it('blocks in host memory - count in full, although the cost counts only a share of them', () => {
    const { plane, send, router } = buildModel([card(1)])
    const { events, ...batch } = stored(60)
    const inHost = events.map((event) => ({ ...event, tier: 'host' as const }))
    router.fleet.kvEvents(workerIdOf(1), { ...batch, events: inHost })
    const { sent } = send({}, 64)
    const usage = { promptTokens: 64, completionTokens: 1, totalTokens: 65, cachedTokens: 60 }
    plane.call(0).finish('stop', { usage })
    expect(router.status().decode.answers).toMatchObject({ forecasts: 1, forecastsOff: 0 })
    const outcomes = (router.explain(sent.requestId) ?? []).map(({ outcome }) => outcome)
    expect(outcomes).toMatchObject([{ overlapBlocks: 15, cachedTokens: 60 }])
  })
})

describe('prompts with estimated token ids', () => {
  it('estimated token ids - cached tokens reported by the engine say nothing about its events', () => {
    const { plane, send, router } = buildModel([card(1)])
    const usage = { promptTokens: 16, completionTokens: 1, totalTokens: 17, cachedTokens: 12 }
    send({ isEstimated: true })
    plane.call(0).finish('stop', { usage })
    expect(router.status().decode.answers).toMatchObject({ forecasts: 0 })
    send({}, tokensFrom(5000, 16))
    plane.call(1).finish('stop', { usage })
    expect(router.status().decode.answers).toMatchObject({ forecasts: 1, forecastsOff: 1 })
  })

  it.each([
    [true, 16],
    [undefined, 0],
  ])(
    'isEstimated %s, the worker sends events - %d blocks are believed to be there again',
    (is, blocks) => {
      const { plane, send, router } = buildModel([card(2)], { predictedTtlSeconds: 0 })
      router.fleet.kvEvents(workerIdOf(2), stored(8))
      const hints = is === undefined ? {} : { isEstimated: is }
      send(hints, tokensFrom(5000, 64))
      plane.call(0).finish()
      expect(send(hints, tokensFrom(5000, 64)).sink.routed[0]?.overlapBlocks).toBe(blocks)
    },
  )
})

describe('PrefillRouter: self-check', () => {
  it('in words - events from k of n workers, share of disaggregated requests with reasons', () => {
    const { plane, send, router } = buildModel([...PD, card(3, 'prefill')])
    router.fleet.kvEvents(workerIdOf(1), stored(8))
    send()
    plane.call(0).prefilled()
    send({ backendWorkerId: workerIdOf(2) })
    expect(router.status().selfCheck).toEqual([
      'prefill: KV events from 1 of 2 workers',
      'decode: KV events from 0 of 0 workers; 1 send none, these workers are assumed to cache what they were sent',
      'disaggregation (active) taken in 50 % of 2 requests; aggregated: pinned to one worker (1)',
    ])
    expect(router.status().warnings).toEqual([])
  })

  it('silent worker - is named after enough prompts', () => {
    const { plane, send, router } = buildModel(PD)
    for (let i = 0; i < 8; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
    }
    expect(router.status().warnings).toEqual([
      'KV routing of the prefill pool receives no KV events from 1 of 1 workers that had prompts',
    ])
    router.fleet.kvEvents(workerIdOf(1), stored(8))
    expect(router.status().warnings).toEqual([])
  })

  it.each([
    [4, 0],
    [5, 1],
  ])(
    'prompts of %i tokens, blocks of 4 - %i silent workers: an engine may keep no KV of a last token',
    (tokens, silent) => {
      const { plane, send, router } = buildModel(PD)
      for (let i = 0; i < 20; i++) {
        send({}, tokens)
        plane.calls.at(-1)?.prefilled()
      }
      expect(router.status().prefill.kvEventWorkersSilent).toBe(silent)
    },
  )

  it('KV transfers that fail - are reported while more than a quarter of the recent ones do', () => {
    const { plane, send, router } = buildModel(PD)
    const transferred = (recomputed: boolean): void => {
      send()
      plane.calls.at(-1)?.prefilled()
      const transfer = { elapsedMs: 1, bytes: 0, blocksPulled: 0, blocksHeld: 0, recomputed }
      const started = { queuedMs: 0, computeMs: 1, transfer }
      plane.calls.at(-1)?.sink.onChunk({ tokenIds: [5], started })
    }
    const failures = (): unknown => router.status().warnings.filter((text) => /KV tran/.test(text))
    transferred(true)
    transferred(true)
    expect(failures()).toEqual([
      '2 of the last 2 KV transfers failed: decode workers computed those prompts again; check that they reach the KV port of the prefill workers, their logs name the reason',
    ])
    for (let i = 0; i < 6; i++) transferred(false)
    expect(failures()).toEqual([])
  })

  it('events off - no worker is called silent, and the line says what routing is based on', () => {
    const { plane, send, router } = buildModel(PD, { useKvEvents: false })
    for (let i = 0; i < 9; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
    }
    expect(router.status().selfCheck[0]).toBe(
      'prefill: KV events from 0 of 1 workers; events are off, workers are assumed to cache what they were sent',
    )
    expect(router.status().warnings).toEqual([])
  })

  it('rejected events - are reported, because blocks are missing in the index', () => {
    const { router } = buildModel(PD)
    const [event] = stored(8).events
    if (event?.kind !== 'stored') throw new Error('no store')
    router.fleet.kvEvents(workerIdOf(1), {
      sequence: 1,
      dpRank: 0,
      events: [{ ...event, parent: [1, 2] }],
    })
    expect(router.status().warnings).toEqual([
      'prefill: 1 KV events were rejected; blocks may be missing in the index; 0 snapshots were requested',
    ])
  })

  it('no decode worker - KV is not handed over to an aggregated pool, and the reason is reported', () => {
    const { send, router } = buildModel([card(1, 'prefill'), card(2, 'agg')])
    expect(send().sink.routed[0]?.phase).toBe('aggregated')
    expect(router.status().warnings.join()).toContain('no decode worker is registered')
  })

  it('explain - every decision of a request, with every term', () => {
    const { plane, send, router } = buildModel(PD)
    const { sent } = send()
    plane.call(0).prefilled()
    const records = router.explain(sent.requestId) ?? []
    expect(records.map(({ phase }) => phase)).toEqual(['prefill', 'decode'])
    expect(records[0]?.candidates[0]).toMatchObject({
      workerId: '1',
      cost: 16 * 4 + 4,
      terms: { prefill: 4, decode: 4 },
    })
    expect(router.explain('nobody')).toBeNull()
  })
})
