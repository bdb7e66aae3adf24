import { describe, expect, it } from 'vitest'
import { BOOTSTRAP, buildModel, offerOf, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card, RecordingSink, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { EngineConfig, RoutingHints, WorkerCard } from '../../request/index.ts'
import type { RouterOptions } from '../configuration/router-config.ts'

/** One prefill worker with room for all, and one decode worker that takes 2 + 1 requests. */
function fleet(decode: Partial<EngineConfig> = { maxNumSeqs: 2 }) {
  const cards = [
    card(1, 'prefill', { engine: { maxNumSeqs: 100 } }),
    card(2, 'decode', { engine: { ...decode } }),
  ]
  const model = buildModel(cards, { engineQueue: 1 })
  const callsOf = (id: number) =>
    model.plane.calls.filter(({ workerId }) => workerId === workerIdOf(id))
  let next = 0
  const send = () => model.send({}, tokensFrom(1000 * next++, 16))
  return { ...model, send, callsOf, prefills: () => callsOf(1), decodes: () => callsOf(2) }
}

describe('prefills under way', () => {
  it('are as many as find a place for decode', () => {
    const { send, prefills, decodes, router } = fleet()
    for (let i = 0; i < 8; i++) send()
    expect(prefills()).toHaveLength(3)
    for (const call of prefills()) call.prefilled()
    expect(decodes()).toHaveLength(3)
    const waiting = router.status().decode.queuedRequests
    expect([prefills().length <= 4, waiting <= 1]).toEqual([true, true])
    decodes()[0]?.finish()
    prefills()[3]?.prefilled()
    expect(router.status().decode.queuedRequests).toBe(0)
  })

  it('include those of other frontends', () => {
    const { send, prefills, router } = fleet()
    const report = { dpRank: 0, activeBlocks: 0, totalBlocks: 1000, prefillTokensInFlight: 0 }
    const inside = { ...report, runningRequests: 2, queuedRequests: 0 }
    router.fleet.load(workerIdOf(1), inside)
    for (let i = 0; i < 8; i++) send()
    expect(prefills()).toHaveLength(1)
  })

  describe('with bootstrap, where decode is placed while prefill runs', () => {
    const meeting = { ...BOOTSTRAP.engine, maxNumSeqs: 100 }
    function bootstrapFleet(maxNumSeqs = 2) {
      const cards = [
        card(1, 'prefill', { engine: meeting }),
        card(2, 'decode', { engine: { maxNumSeqs } }),
      ]
      const model = buildModel(cards, { engineQueue: 1 })
      const callsOf = (id: number) =>
        model.plane.calls.filter(({ workerId }) => workerId === workerIdOf(id))
      const send = (count: number) => {
        for (let i = 0; i < count; i++) model.send({}, tokensFrom(1000 * i, 16))
      }
      return { ...model, send, prefills: () => callsOf(1), decodes: () => callsOf(2) }
    }

    it('take one decode place each, not two', () => {
      const { send, prefills, decodes, router } = bootstrapFleet()
      send(8)
      expect([prefills().length, decodes().length]).toEqual([3, 3])
      decodes()[0]?.finish()
      expect([prefills().length, decodes().length]).toEqual([4, 4])
      expect(router.status().decode.queuedRequests).toBe(0)
      expect(router.status().prefill.prefillsUnderWay).toBe(4)
    })

    it('those of other frontends - have their decode places, too', () => {
      const { send, prefills, router } = bootstrapFleet(4)
      const report = { dpRank: 0, activeBlocks: 0, totalBlocks: 1000, prefillTokensInFlight: 0 }
      const inside = { ...report, runningRequests: 2, queuedRequests: 0 }
      for (const id of [1, 2]) router.fleet.load(workerIdOf(id), inside)
      send(8)
      expect(prefills()).toHaveLength(3)
    })

    it('the prefill worker has reported the meeting point itself - the same', () => {
      const { send, prefills, decodes } = fleet()
      for (let i = 0; i < 3; i++) send()
      for (const call of prefills()) {
        const prefillResult = { kvOffer: offerOf(call.request.requestId), meetsDecode: true }
        call.sink.onChunk({ tokenIds: [], prefillResult })
      }
      expect(decodes()).toHaveLength(3)
      decodes()[0]?.finish()
      send()
      expect(prefills()).toHaveLength(4)
    })
  })

  it('prefill workers that leave again and again - their requests do not count any more', () => {
    const { send, prefills, callsOf, router } = fleet()
    for (let round = 0; round < 5; round++) {
      send()
      send()
      const lost = prefills().slice(-2)
      router.fleet.workerLeft(workerIdOf(1), 'expired')
      for (const call of lost) call.fail('transport.disconnected')
      router.fleet.workerJoined(card(1, 'prefill', { engine: { maxNumSeqs: 100 } }))
      // They continue on the decode worker alone.
      for (const call of callsOf(2)) call.finish()
    }
    const before = prefills().length
    for (let i = 0; i < 3; i++) send()
    expect(prefills().length - before).toBe(3)
    expect(router.status().prefill.queuedRequests).toBe(0)
  })

  it('slow prefills - those are added whose place becomes free meanwhile', () => {
    const { send, prefills, decodes, clock } = fleet()
    const dueAt: number[] = []
    let [prefilled, decoded, most] = [0, 0, 0]
    for (let tick = 0; tick < 200; tick++) {
      send()
      if (tick % 2 === 1 && decoded < decodes().length) decodes()[decoded++]?.finish()
      // A prefill takes one second, and five decodes end in one.
      while (dueAt.length < prefills().length) dueAt.push(tick + 10)
      while ((dueAt[prefilled] ?? Infinity) <= tick) prefills()[prefilled++]?.prefilled()
      clock.advance(100)
      most = Math.max(most, prefills().length - prefilled)
    }
    expect(most).toBeGreaterThan(4)
    expect(most).toBeLessThan(12)
    expect(decoded).toBeGreaterThan(88)
  })

  it('a decode worker that does not report its batch size - does not limit them', () => {
    const { send, prefills } = fleet({})
    for (let i = 0; i < 20; i++) send()
    expect(prefills()).toHaveLength(20)
  })

  it('workers that do not take the KV of others - have no place for it', () => {
    const { send, prefills, router } = fleet()
    router.fleet.workerJoined(card(5, 'agg', { engine: { maxNumSeqs: 50 } }))
    for (let i = 0; i < 8; i++) send()
    expect(prefills()).toHaveLength(3)
    expect(router.status().prefill.queuedRequests).toBe(5)
    for (const call of prefills()) call.prefilled()
    // Now nothing is under way, and the other worker is still idle.
    const before = prefills().length
    send()
    expect(prefills()).toHaveLength(before)
  })

  it('a decode worker joins that has the adapter of some - those go, although others wait before them', () => {
    const tuned = (maxNumSeqs: number, ...loraAdapters: string[]) => ({
      engine: { maxNumSeqs, loraAdapters },
    })
    const model = buildModel(
      [card(1, 'prefill', tuned(100, 'a', 'b')), card(3, 'decode', tuned(2, 'a', 'b'))],
      { engineQueue: 1 },
    )
    model.router.fleet.workerJoined(card(5, 'decode', tuned(2)))
    for (let i = 0; i < 4; i++) model.send({ loraName: 'a' }, tokensFrom(1000 * i, 16))
    const wanted = model.send({ loraName: 'b' }, tokensFrom(9000, 16))
    expect(model.router.status().prefill.queuedRequests).toBe(2)
    model.router.fleet.workerJoined(card(4, 'decode', tuned(2, 'b')))
    expect(model.plane.calls.at(-1)?.request.requestId).toBe(wanted.sent.requestId)
  })

  it('decode legs of any rank are queued - a pinned prefill does not pass one that may go anywhere', () => {
    const model = buildModel(
      [
        card(1, 'prefill', { engine: { maxNumSeqs: 100 } }),
        card(3, 'decode', { engine: { maxNumSeqs: 2 } }),
        card(4, 'decode', { engine: { maxNumSeqs: 2 } }),
      ],
      { engineQueue: 1 },
    )
    let next = 0
    const send = (hints: RoutingHints = {}) => model.send(hints, tokensFrom(1000 * next++, 16))
    const of = (isPrefill: boolean) =>
      model.plane.calls.filter(({ workerId }) => (workerId === workerIdOf(1)) === isPrefill)
    // Ten requests per second end, and a prefill takes 100 ms: two places become free meanwhile, one of each worker.
    for (let i = 0; i < 30; i++) {
      send()
      model.clock.advance(100)
      of(true).at(-1)?.prefilled()
      of(false).at(-1)?.finish()
    }
    const before = of(true).length
    for (let i = 0; i < 6; i++) send()
    for (const call of of(true).slice(before)) call.prefilled()
    for (let i = 0; i < 2; i++) send()
    for (const call of of(true).slice(before + 6)) call.prefilled()
    expect(model.router.status().decode.queuedRequests).toBe(2)
    const urgent = send({ strictPriority: 5 })
    const pinned = send({ prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(3) })
    expect(of(true)).toHaveLength(before + 8)
    of(false).at(-1)?.finish()
    expect(of(true).at(-1)?.request.requestId).toBe(urgent.sent.requestId)
    expect(pinned.sink.errors).toEqual([])
  })

  it('a decode worker leaves while a prefill for it and for others is under way - further ones are judged without it', () => {
    const gold = (id: number) => card(id, 'decode', { taints: ['gold'], engine: { maxNumSeqs: 2 } })
    const model = buildModel(
      [card(1, 'prefill', { taints: ['gold'] }), gold(2), gold(3), card(4, 'decode')],
      { engineQueue: 1 },
    )
    const bound = model.send({ requiredTaints: ['gold'] })
    model.router.fleet.workerLeft(workerIdOf(3), 'expired')
    const pinned = model.send({ prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(2) })
    expect(model.plane.calls).toHaveLength(2)
    for (const call of model.plane.calls.slice()) call.prefilled()
    for (const call of model.plane.calls.slice(2)) call.finish()
    expect([bound.sink.finish, pinned.sink.finish]).toEqual(['stop', 'stop'])
  })

  it('embeddings - need no decode worker', () => {
    const { router, plane } = fleet()
    for (let i = 0; i < 20; i++) {
      router.service.send(request(16, {}, { kind: 'embed' }), new RecordingSink())
    }
    expect(plane.calls).toHaveLength(20)
  })
})

/** Two zones that KV must not leave, each with one prefill worker and one decode worker of 2 + 1 requests. */
describe('required topology', () => {
  const ZONE_OF = { '1': 'a', '2': 'b', '3': 'a', '4': 'b' } as Readonly<Record<string, string>>
  const topology = { domain: 'zone', enforcement: 'required' } as const
  const at = (id: number, mode: 'prefill' | 'decode', maxNumSeqs: number) =>
    card(id, mode, { topology: { zone: ZONE_OF[id] as string }, engine: { maxNumSeqs } })

  function zones(more: readonly WorkerCard[] = []) {
    const cards = [
      at(1, 'prefill', 100),
      at(2, 'prefill', 100),
      at(3, 'decode', 2),
      at(4, 'decode', 2),
    ]
    const model = buildModel([...cards, ...more], { engineQueue: 1, topology })
    let next = 0
    const send = (routing: RoutingHints = {}) => model.send(routing, tokensFrom(1000 * next++, 16))
    const zonesOf = (from = 0) =>
      model.plane.calls.slice(from).map((call) => ZONE_OF[call.workerId])
    /** Sends requests to zone a until its decode worker is full. */
    const fillA = () => {
      for (let i = 0; i < 3; i++) {
        send({ prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(3) })
        model.plane.calls.at(-1)?.prefilled()
      }
      expect(zonesOf()).toEqual(['a', 'a', 'a', 'a', 'a', 'a'])
    }
    return { ...model, send, zonesOf, fillA }
  }

  it('the decode worker of one zone is full - requests go to the other one', () => {
    const { send, fillA, zonesOf, plane } = zones()
    fillA()
    for (let i = 0; i < 3; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
    }
    expect(zonesOf(6)).toEqual(['b', 'b', 'b', 'b', 'b', 'b'])
  })

  it('prefills under way count in their zone', () => {
    const { send, zonesOf, router } = zones()
    for (let i = 0; i < 8; i++) send()
    expect(zonesOf().sort()).toEqual(['a', 'a', 'a', 'b', 'b', 'b'])
    expect(router.status().prefill.queuedRequests).toBe(2)
  })

  it('both are full - requests wait, and go to the zone that has a place first', () => {
    const { send, fillA, zonesOf, plane, router } = zones()
    fillA()
    for (let i = 0; i < 3; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
    }
    const { sent } = send()
    expect(router.status().prefill.queuedRequests).toBe(1)
    const inB = plane.calls.filter(({ workerId }) => workerId === workerIdOf(4))
    inB[0]?.finish()
    expect([zonesOf(12), router.status().prefill.queuedRequests]).toEqual([['b'], 0])
    const [record] = router.explain(sent.requestId) ?? []
    expect(record?.excluded.map(({ reason }) => reason)).toEqual(['no-place-for-decode'])
  })

  it('requests pinned to the full zone wait, and delay no other', () => {
    const { send, fillA, zonesOf, plane, router } = zones()
    fillA()
    for (let i = 0; i < 5; i++) send({ prefillWorkerId: workerIdOf(1) })
    expect(router.status().prefill.queuedRequests).toBe(5)
    send()
    plane.calls.at(-1)?.prefilled()
    expect(zonesOf(6)).toEqual(['b', 'b'])
  })

  it('a decode worker joins the full zone - it takes requests again', () => {
    const { send, fillA, zonesOf, router } = zones()
    fillA()
    send({ prefillWorkerId: workerIdOf(1) })
    expect(router.status().prefill.queuedRequests).toBe(1)
    router.fleet.workerJoined(
      card(5, 'decode', { topology: { zone: 'a' }, engine: { maxNumSeqs: 2 } }),
    )
    expect([zonesOf(6), router.status().prefill.queuedRequests]).toEqual([['a'], 0])
  })

  it('one zone for all - as many prompts wait for decode as without zones', () => {
    const cards = [at(1, 'prefill', 100), at(3, 'decode', 2)]
    const waitingAfter = (config: RouterOptions): number => {
      const { plane, clock, router, ...model } = buildModel(cards, { engineQueue: 1, ...config })
      const callsOf = (id: number) =>
        plane.calls.filter(({ workerId }) => workerId === workerIdOf(id))
      const dueAt: number[] = []
      let [prefilled, decoded] = [0, 0]
      for (let tick = 0; tick < 200; tick++) {
        model.send({}, tokensFrom(1000 * tick, 16))
        // A prefill takes one second; five decodes end in one, then none any more.
        if (tick < 100 && tick % 2 === 1) callsOf(3)[decoded]?.finish()
        if (tick < 100 && tick % 2 === 1 && decoded < callsOf(3).length) decoded++
        while (dueAt.length < callsOf(1).length) dueAt.push(tick + 10)
        while ((dueAt[prefilled] ?? Infinity) <= tick) callsOf(1)[prefilled++]?.prefilled()
        clock.advance(100)
      }
      return router.status().decode.queuedRequests
    }
    expect(waitingAfter({ topology })).toBe(waitingAfter({}))
  })

  it('a prefill worker without a policy of its own, in a fleet without one - any decode worker may take its KV', () => {
    const free = buildModel([at(1, 'prefill', 100), at(3, 'decode', 2), at(4, 'decode', 2)], {
      engineQueue: 1,
    })
    for (let i = 0; i < 6; i++) free.send({}, tokensFrom(1000 * i, 16))
    expect(free.plane.calls).toHaveLength(6)
  })

  it('embeddings - need no decode worker', () => {
    const { fillA, router, plane } = zones()
    fillA()
    const prompt = request(16, { allowedWorkerIds: [workerIdOf(1)] }, { kind: 'embed' })
    router.service.send(prompt, new RecordingSink())
    expect(plane.calls).toHaveLength(7)
  })
})

/** Worker 3 is the only decode worker that these requests may go to; it takes 2 + 1, like worker 4. */
describe.each<[string, RoutingHints]>([
  ['a LoRA adapter', { loraName: 'tuned' }],
  ['a decode worker by its id', { decodeWorkerId: workerIdOf(3), prefillWorkerId: workerIdOf(1) }],
  ['a taint', { requiredTaints: ['gold'] }],
  ['a session', { sessionId: 's' }],
])('prefills of requests that ask for %s', (_, routing) => {
  function build() {
    const special = { taints: ['gold'], engine: { maxNumSeqs: 2, loraAdapters: ['tuned'] } }
    const prefill = { ...special, engine: { ...special.engine, maxNumSeqs: 100 } }
    const cards = [
      card(1, 'prefill', prefill),
      card(3, 'decode', special),
      card(4, 'decode', { engine: { maxNumSeqs: 2 } }),
    ]
    const model = buildModel(cards, { engineQueue: 1, session: { ttlSeconds: 600 } })
    let next = 0
    const send = (hints: RoutingHints = {}) => model.send(hints, tokensFrom(1000 * next++, 16))
    if (routing.sessionId !== undefined) {
      // Binds the session to workers 1 and 3.
      send({ ...routing, decodeWorkerId: workerIdOf(3), prefillWorkerId: workerIdOf(1) })
      model.plane.call(0).prefilled()
      model.plane.call(1).finish()
    }
    const from = model.plane.calls.length
    const workers = () => model.plane.calls.slice(from).map(({ workerId }) => Number(workerId))
    return { ...model, send, workers }
  }

  it('are computed only while that worker has a place, and delay no other request', () => {
    const { send, workers, plane, router } = build()
    for (let i = 0; i < 10; i++) {
      send(routing)
      if (workers().at(-1) === 1) plane.calls.at(-1)?.prefilled()
    }
    expect(workers()).toEqual([1, 3, 1, 3, 1, 3])
    expect(router.status().prefill.queuedRequests).toBe(7)
    expect(router.status().decode.queuedRequests).toBe(0)
    for (let i = 0; i < 3; i++) {
      send()
      plane.calls.at(-1)?.prefilled()
    }
    expect(workers().slice(6)).toEqual([1, 4, 1, 4, 1, 4])
    // One that ends makes a place for the next of them.
    const decodes = plane.calls.filter(({ workerId }) => workerId === '3')
    decodes.at(-1)?.finish()
    expect(workers().slice(12)).toEqual([1])
  })

  it('count while they are under way', () => {
    const { send, workers, router } = build()
    for (let i = 0; i < 10; i++) send(routing)
    expect(workers()).toEqual([1, 1, 1])
    for (let i = 0; i < 5; i++) send()
    // All under way count against all places: 3 of 6 are left.
    expect(workers().slice(3)).toEqual([1, 1, 1])
    expect(router.status().prefill.queuedRequests).toBe(9)
  })
})
