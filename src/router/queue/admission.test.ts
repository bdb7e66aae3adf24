import { describe, expect, it } from 'vitest'
import { buildModel, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import type { ScriptedCall } from '../../../test/router/scripted-plane.ts'
import { fleet } from '../../../test/router/small-fleet.ts'
import { workerIdOf } from '../../base/index.ts'
import type { RoutingHints } from '../../request/index.ts'

const report = (running: number, queued: number, prefillTokensInFlight = 0, activeBlocks = 0) => ({
  dpRank: 0,
  activeBlocks,
  totalBlocks: 1000,
  runningRequests: running,
  queuedRequests: queued,
  prefillTokensInFlight,
})

describe('the queue inside a worker', () => {
  it('at its limit - further requests queue in the router and are sent one by one', () => {
    const { plane, send, pool } = fleet(1)
    for (let i = 0; i < 5; i++) send()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([3, 2])
    plane.call(0).finish()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([4, 1])
    plane.call(1).finish()
    plane.call(2).finish()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([5, 0])
  })

  it('requests of another frontend - count: the report fills the worker', () => {
    const { plane, send, pool, router } = fleet(1)
    router.fleet.load(workerIdOf(1), report(2, 0))
    send()
    send()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([1, 1])
    router.fleet.load(workerIdOf(1), report(1, 0))
    expect([plane.calls.length, pool().queuedRequests]).toEqual([2, 0])
  })

  it('a worker that lacks KV blocks - is full by its own queue, whatever its batch', () => {
    const { plane, send, pool, router } = fleet(1, {}, 100)
    router.fleet.load(workerIdOf(1), report(3, 1))
    send()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([0, 1])
    router.fleet.load(workerIdOf(1), report(4, 0))
    expect(plane.calls.length).toBe(1)
  })

  it('two batches of prompts in flight - are enough', () => {
    const engine = { maxNumSeqs: 100, maxNumBatchedTokens: 20 }
    const { plane, send, router } = buildModel([card(1, 'agg', { engine })], { engineQueue: 1 })
    for (let i = 0; i < 5; i++) send({}, tokensFrom(1000 * i, 16))
    expect(plane.calls.length).toBe(3)
    plane.call(0).token()
    expect(plane.calls.length).toBe(4)
    expect(router.status().decode.ranks[0]).toMatchObject({ full: true, activePrefillTokens: 48 })
  })

  it('null - no limit', () => {
    const { plane, send } = fleet(1, { engineQueue: null })
    for (let i = 0; i < 50; i++) send()
    expect(plane.calls.length).toBe(50)
  })

  it('a worker that does not report its batch size, nothing learned yet - no limit', () => {
    const { plane, send } = buildModel([card(1, 'agg')], { engineQueue: 1 })
    for (let i = 0; i < 50; i++) send()
    expect(plane.calls.length).toBe(50)
  })

  it.each([
    ['agg', 'tokens'],
    ['agg', 'no tokens'],
    ['prefill', 'tokens'],
    ['decode', 'tokens'],
  ] as const)(
    'a %s worker that does not report its batch size and is late, answers with %s - takes no more until it answers',
    (mode, content) => {
      const decode = card(2, 'decode', { engine: mode === 'decode' ? {} : { maxNumSeqs: 100 } })
      const cards = mode === 'agg' ? [card(1, 'agg')] : [card(1, 'prefill'), decode]
      const { plane, send, clock, router } = buildModel(cards, { engineQueue: 2 })
      const last = () => plane.call(plane.calls.length - 1)
      const isFull = () => {
        const { prefill, decode: following } = router.status()
        return (mode === 'prefill' ? prefill : following).ranks[0]?.full
      }
      /** Sends a request up to the leg on the worker that the test is about. */
      const sendThere = () => {
        send()
        if (mode !== 'decode') return last()
        last().prefilled()
        return last()
      }
      const end = (call: ReturnType<typeof last>) => {
        if (mode === 'prefill') {
          call.prefilled()
          last().finish()
        } else {
          if (content === 'tokens') call.token()
          call.finish()
        }
      }
      for (let i = 0; i < 4; i++) {
        const call = sendThere()
        clock.advance(10)
        end(call)
      }
      const first = sendThere()
      for (let i = 0; i < 9; i++) sendThere()
      expect(isFull()).toBe(false)
      clock.advance(1000)
      expect(isFull()).toBe(false)
      clock.advance(1100)
      const count = plane.calls.length
      sendThere()
      expect(isFull()).toBe(true)
      send()
      send()
      const { prefill, decode: following } = router.status()
      // Before a decode leg the prefills for places that are expected to be free are sent.
      if (mode !== 'decode') expect(plane.calls.length).toBe(count + 1)
      expect(prefill.queuedRequests + following.queuedRequests).toBeGreaterThan(0)
      end(first)
      expect(isFull()).toBe(true)
    },
  )

  it('full - other workers are preferred, and the record says why', () => {
    const { plane, send, router } = fleet(2)
    router.fleet.load(workerIdOf(1), report(3, 0))
    const { sent } = send()
    expect(plane.call(0).workerId).toBe('2')
    const [record] = router.explain(sent.requestId) ?? []
    expect(record?.excluded).toEqual([{ workerId: '1', dpRank: 0, reason: 'full' }])
  })

  it('pinned to a full worker - waits for it, and delays no other request', () => {
    const { plane, send, router, pool } = fleet(2)
    router.fleet.load(workerIdOf(1), report(3, 0))
    send({ backendWorkerId: workerIdOf(1) })
    send()
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['2'])
    expect(pool().queuedRequests).toBe(1)
    router.fleet.load(workerIdOf(1), report(0, 0))
    expect(plane.call(1).workerId).toBe('1')
  })

  it('a prefill - waits while no decode worker has capacity', () => {
    const decode = card(2, 'decode', { engine: { maxNumSeqs: 1 } })
    const { plane, send, router } = buildModel([card(1, 'prefill'), decode], { engineQueue: 1 })
    router.fleet.load(workerIdOf(2), report(2, 0))
    send()
    expect(plane.calls.length).toBe(0)
    router.fleet.load(workerIdOf(2), report(1, 0))
    expect(plane.call(0).workerId).toBe('1')
  })
})

describe('connections to all workers are lost', () => {
  it('queued requests wait: no more are sent to workers under suspicion than these could run', () => {
    const { plane, send, pool } = fleet(2)
    const sent = Array.from({ length: 30 }, () => send())
    expect([plane.calls.length, pool().queuedRequests]).toEqual([6, 24])
    for (const call of plane.calls.slice(0, 6)) call.fail('transport.disconnected')
    expect([plane.calls.length, pool().queuedRequests]).toEqual([12, 18])
    expect(sent.filter(({ sink }) => sink.errors.length > 0)).toHaveLength(6)
  })
})

describe('two routers on one fleet', () => {
  it.each([20, 200, 1000])(
    'a batch that the other one has filled, no speed known yet, prompts of %i tokens - a free place elsewhere is preferred',
    (tokens) => {
      const { plane, send, router } = fleet(2, { engineQueue: 4 }, 8)
      router.fleet.load(workerIdOf(1), report(8, 0, 0, 100))
      for (let i = 0; i < 4; i++) send({}, tokensFrom(2000 * i, tokens))
      expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['2', '2', '2', '2'])
      for (let i = 4; i < 20; i++) send({}, tokensFrom(2000 * i, 4))
      expect(plane.calls.some(({ workerId }) => workerId === '1')).toBe(true)
    },
  )

  it('the cost - uses the larger of booked and reported load', () => {
    const { plane, send, router } = fleet(2, {}, 100)
    router.fleet.load(workerIdOf(1), report(12, 0, 100, 40))
    for (let i = 0; i < 8; i++) send({}, 8)
    expect(plane.calls.every(({ workerId }) => workerId === '2')).toBe(true)
  })

  it.each(['least-loaded', 'power-of-two'] as const)('%s - too', (mode) => {
    const { plane, send, router } = fleet(2, { mode }, 100)
    router.fleet.load(workerIdOf(1), report(12, 0))
    for (let i = 0; i < 8; i++) send()
    expect(plane.calls.every(({ workerId }) => workerId === '2')).toBe(true)
  })
})

describe('a full queue', () => {
  const high: RoutingHints = { strictPriority: 1 }

  it('drops the last request of the lowest class first', () => {
    const { send, pool } = fleet(1, { maxQueuedRequests: 2 })
    for (let i = 0; i < 3; i++) send()
    const first = send()
    const second = send()
    const refused = send()
    expect(refused.sink.errors[0]).toMatchObject({ code: 'capacity.exhausted' })
    expect(refused.sink.errors[0]?.data['retryAfterMs']).toBeGreaterThan(0)
    send(high)
    expect([first.sink.errors.length, second.sink.errors.length]).toEqual([0, 1])
    expect(second.sink.errors[0]?.code).toBe('capacity.exhausted')
    send(high)
    expect(first.sink.errors).toHaveLength(1)
    expect(pool().queuedRequests).toBe(2)
    const third = send(high)
    expect(third.sink.errors[0]?.code).toBe('capacity.exhausted')
  })

  it('full queue of a class - drops within that class', () => {
    const policyClasses = [{ name: 'a', requestLimitPerWorker: 1 }, { name: 'default' }]
    const { send } = fleet(1, { policyClasses })
    for (let i = 0; i < 3; i++) send()
    const other = send()
    const low = send({ policyClass: 'a' })
    send({ policyClass: 'a', strictPriority: 1 })
    expect(low.sink.errors[0]?.code).toBe('capacity.pool_exhausted')
    expect(other.sink.errors).toEqual([])
  })
})

describe('overload', () => {
  /** Offers this many requests per tenth of a second, while the worker completes one of them. */
  function flood(perTick: number, ticks: number, routing: RoutingHints = {}) {
    const model = fleet(1)
    const sent: ReturnType<typeof model.send>[] = []
    let next = 0
    for (let tick = 0; tick < ticks; tick++) {
      for (let i = 0; i < perTick; i++) sent.push(model.send(routing))
      if (next < model.plane.calls.length) model.plane.call(next++).finish()
      model.clock.advance(100)
    }
    // The last completion has freed a place.
    for (let i = 1; i < perTick; i++) sent.push(model.send(routing))
    return { ...model, sent, refused: sent.filter(({ sink }) => sink.errors.length > 0) }
  }

  it('arrivals equal completions - none is refused', () => {
    expect(flood(1, 60).refused).toHaveLength(0)
  })

  it('more arrivals than completions - only as many queue as start in 350 ms, the others get Retry-After', () => {
    const { refused, pool, plane, send } = flood(10, 60)
    expect(pool().queuedRequests).toBe(4)
    expect(plane.calls.length).toBeGreaterThan(55)
    expect(refused.length).toBeGreaterThan(500)
    const { code, data } = send().sink.errors[0] ?? {}
    expect(code).toBe('capacity.pool_exhausted')
    expect(data).toMatchObject({ stage: 'queue', retryAfterMs: expect.any(Number) })
    expect(data?.['retryAfterMs']).toBeGreaterThan(5000)
  })

  it('a higher class is sent, a lower one is dropped', () => {
    const { send, pool } = flood(10, 60)
    const waiting = pool().queuedRequests
    const urgent = send({ strictPriority: 1 })
    expect(urgent.sink.errors).toEqual([])
    expect(pool().queuedRequests).toBe(waiting)
  })

  it('refusalAtOnce - refuses exactly the requests that the queue would refuse', () => {
    /** Like `flood`, but calls `refusalAtOnce` first, as a frontend does. */
    const model = fleet(1)
    const sent: ReturnType<typeof model.send>[] = []
    let atOnce = 0
    let next = 0
    for (let tick = 0; tick < 60; tick++) {
      for (let i = 0; i < 10; i++) {
        if (model.router.refusalAtOnce({}) !== null) {
          atOnce++
          continue
        }
        const one = model.send()
        expect(one.sink.errors, 'the queue refuses nobody more').toEqual([])
        sent.push(one)
      }
      if (next < model.plane.calls.length) model.plane.call(next++).finish()
      model.clock.advance(100)
    }
    const plain = flood(10, 60)
    // Requests queued before the overload was detected are dropped; these have been tokenized.
    const refused = atOnce + sent.filter(({ sink }) => sink.errors.length > 0).length
    expect(Math.abs(refused - plain.refused.length)).toBeLessThanOrEqual(10)
    expect(atOnce).toBeGreaterThan(refused / 2)
    expect(model.pool().queuedRequests).toBeLessThanOrEqual(5)
    expect(model.plane.calls.length).toBe(plain.plane.calls.length)
    while (model.router.refusalAtOnce({}) === null) model.send()
    expect(model.router.refusalAtOnce({})).toMatchObject({
      code: 'capacity.pool_exhausted',
      data: { stage: 'queue', retryAfterMs: expect.any(Number) },
    })
    const asked: RoutingHints[] = [
      { strictPriority: 1 },
      { sessionId: 's' },
      { decodeWorkerId: workerIdOf(1) },
      { dpRank: 0 },
      { requiredTaints: ['gpu'] },
      { queryOnly: true },
    ]
    for (const hints of asked)
      expect(model.router.refusalAtOnce(hints), JSON.stringify(hints)).toBeNull()
    expect(
      model.router.refusalAtOnce({ tenantId: 'other' }),
      'a tenant with nothing there',
    ).toBeNull()
  })

  it('refusalAtOnce - returns null with several classes, or without overload', () => {
    expect(fleet(1).router.refusalAtOnce({})).toBeNull()
    const classes = [{ name: 'default' }, { name: 'batch' }]
    const { router, send, clock, plane } = fleet(1, { policyClasses: classes })
    for (let tick = 0; tick < 40; tick++) {
      for (let i = 0; i < 10; i++) send()
      plane.call(tick).finish()
      clock.advance(100)
    }
    const more = Array.from({ length: 10 }, () => send())
    expect(more.some(({ sink }) => sink.errors.length > 0)).toBe(true)
    expect(router.refusalAtOnce({})).toBeNull()
  })

  it('requests wait long - fewer are queued inside the workers, none is refused', () => {
    const { send, pool, clock, plane } = fleet(1, { engineQueue: 4 })
    const all = Array.from({ length: 30 }, () => send())
    expect(plane.calls.length).toBe(2 + 4)
    for (let i = 0; i < 24; i++) {
      clock.advance(100)
      plane.call(i).finish()
      all.push(send())
    }
    // Two start within half of 350 ms.
    expect(plane.calls.length).toBe(24 + 2 + 2)
    for (let i = 24; i < 54; i++) {
      clock.advance(100)
      plane.call(i).finish()
    }
    expect(all.every(({ sink }) => sink.errors.length === 0)).toBe(true)
    expect(pool().queuedRequests).toBe(0)
  })

  it('a burst - is worked off', () => {
    const { send, pool, clock, plane } = fleet(1)
    const all = Array.from({ length: 60 }, () => send())
    for (let i = 0; i < 60; i++) {
      clock.advance(200)
      plane.call(i).finish()
    }
    expect(all.every(({ sink }) => sink.errors.length === 0)).toBe(true)
    expect(pool().queuedRequests).toBe(0)
  })

  it('after overload - all requests are sent at once again', () => {
    const { send, clock, plane, pool } = flood(10, 60)
    for (let i = 0; i < plane.calls.length; i++) plane.call(i).finish()
    clock.advance(1500)
    expect(pool()).toMatchObject({ queuedRequests: 0, activeRequests: 0 })
    const before = plane.calls.length
    send()
    expect(plane.calls.length).toBe(before + 1)
  })
})

describe('a worker that reported to be full and nothing since', () => {
  it.each([
    ['its own queue', report(2, 9)],
    ['its batch', report(4, 0)],
  ])('full by %s - after 5 s a probe goes there, and more when it is answered', (_by, last) => {
    const { plane, send, pool, router, clock } = fleet(1)
    router.fleet.load(workerIdOf(1), last)
    for (let i = 0; i < 4; i++) send()
    clock.advance(4900)
    expect([plane.calls.length, pool().queuedRequests]).toEqual([0, 4])
    expect(router.status().warnings).toEqual([])
    clock.advance(400)
    expect([plane.calls.length, pool().queuedRequests]).toEqual([1, 3])
    const text = `decode: worker 1 rank 0 (${last.runningRequests + last.queuedRequests} requests, ${last.queuedRequests} of them queued, 0 KV blocks in use) reported to be full and nothing since`
    expect(router.status().warnings.join()).toContain(text)
    clock.advance(20_000)
    expect(plane.calls.length).toBe(1)
    plane.call(0).token()
    expect([plane.calls.length, pool().queuedRequests]).toEqual([3, 1])
  })

  it.each([
    ['fails', (call: ScriptedCall) => call.fail('backend.unknown'), [2, 1]],
    ['ends with an empty answer', (call: ScriptedCall) => call.finish(), [3, 0]],
  ] as const)('the probe %s - [sent, queued] are %j', (_, end, counts) => {
    const { plane, send, pool, router, clock } = fleet(1)
    router.fleet.load(workerIdOf(1), report(2, 9))
    for (let i = 0; i < 3; i++) send()
    clock.advance(6000)
    expect(plane.calls.length).toBe(1)
    end(plane.call(0))
    expect([plane.calls.length, pool().queuedRequests]).toEqual(counts)
  })

  it('it reports again - the report is believed, and the warning ends', () => {
    const { plane, send, router, clock } = fleet(1)
    router.fleet.load(workerIdOf(1), report(2, 9))
    clock.advance(6000)
    send()
    expect(plane.calls.length).toBe(1)
    router.fleet.load(workerIdOf(1), report(2, 10))
    expect(router.status().warnings).toEqual([])
    for (let i = 0; i < 3; i++) send()
    clock.advance(4000)
    expect(plane.calls.length).toBe(1)
    router.fleet.load(workerIdOf(1), report(0, 0))
    expect(plane.calls.length).toBe(3)
  })

  it('own requests run there - it is believed, however old it is', () => {
    const { plane, send, router, clock } = fleet(1)
    send()
    router.fleet.load(workerIdOf(1), report(1, 9))
    send()
    clock.advance(20_000)
    expect(plane.calls.length).toBe(1)
    expect(router.status().warnings).toEqual([])
  })

  it('overloaded by KV blocks that it reported - the same', () => {
    const { plane, send, router, clock } = fleet(1, { busy: { activeDecodeBlocks: 0.5 } })
    router.fleet.load(workerIdOf(1), report(0, 0, 0, 900))
    const refused = send()
    expect(refused.sink.errors.map(({ code }) => code)).toEqual(['capacity.pool_exhausted'])
    clock.advance(6000)
    send()
    expect(plane.calls.length).toBe(1)
    expect(router.status().warnings.join()).toContain('900 KV blocks in use')
  })

  it('a decode worker with many places - one prefill is started for the probe, not one for each place', () => {
    const engine = { maxNumSeqs: 20 }
    const cards = [card(1, 'prefill', { engine }), card(2, 'decode', { engine })]
    const { plane, send, router, clock } = buildModel(cards, { engineQueue: 1 })
    router.fleet.load(workerIdOf(2), report(20, 9))
    for (let i = 0; i < 10; i++) send()
    clock.advance(6000)
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1'])
    plane.call(0).prefilled()
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1', '1', '2'])
    plane.call(2).token()
    expect(plane.calls.length).toBe(11)
  })

  it('a decode worker - prefills are started again', () => {
    const engine = { maxNumSeqs: 2 }
    const cards = [card(1, 'prefill', { engine }), card(2, 'decode', { engine })]
    const { plane, send, router, clock } = buildModel(cards, { engineQueue: 1 })
    router.fleet.load(workerIdOf(2), report(2, 9))
    send()
    expect(plane.calls.length).toBe(0)
    clock.advance(6000)
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1'])
    plane.call(0).prefilled()
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1', '2'])
  })
})
