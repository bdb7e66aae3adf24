import { describe, expect, it } from 'vitest'
import { buildModel, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card, RecordingSink, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { EngineConfig } from '../../request/index.ts'

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

  it('embeddings - need no decode worker', () => {
    const { router, plane } = fleet()
    for (let i = 0; i < 20; i++) {
      router.service.send(request(16, {}, { kind: 'embed' }), new RecordingSink())
    }
    expect(plane.calls).toHaveLength(20)
  })
})
