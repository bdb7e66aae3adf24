import { describe, expect, it } from 'vitest'
import { AGREED, cardOf, RegistryFleet } from '../../../test/frontend/registry-fleet.ts'
import { workerIdOf } from '../../base/index.ts'

describe('ModelRegistry - versions of a model side by side', () => {
  const NEXT = { ...AGREED, weights: 'w2', checksum: 'sum2' }
  const FIRST = { ...AGREED, weights: 'w1' }
  const first = (id: number) => cardOf(id, { agreement: FIRST })
  const next = (id: number, weight?: number) =>
    cardOf(id, { agreement: NEXT, ...(weight === undefined ? {} : { weight }) })
  const drawn = (fleet: RegistryFleet, draws: number): Map<string, number> => {
    const counts = new Map<string, number>()
    for (let i = 0; i < draws; i++) {
      const { version } = fleet.registry.ready('storyteller')
      counts.set(version, (counts.get(version) ?? 0) + 1)
    }
    return counts
  }

  it('a weight - creates a version with its own router', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 50))
    expect(fleet.news).toEqual(['joined 1', 'joined 2'])
    const [old, fresh] = fleet.registry.models
    expect(old?.router).not.toBe(fresh?.router)
    expect(fleet.registry.models.map(({ cards }) => cards.map((each) => each.workerId))).toEqual([
      ['1'],
      ['2'],
    ])
  })

  it("requests - are distributed by weight; an administrator's weight precedes that of the workers", () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 100))
    const half = drawn(fleet, 2000).get('sum2') ?? 0
    expect(half).toBeGreaterThan(850)
    expect(half).toBeLessThan(1150)
    fleet.registry.setWeight('storyteller', 'sum2', 10)
    const tenth = drawn(fleet, 2000).get('sum2') ?? 0
    expect(tenth).toBeGreaterThan(110)
    expect(tenth).toBeLessThan(260)
    fleet.registry.setWeight('storyteller', 'sum1', 0)
    expect(drawn(fleet, 50)).toEqual(new Map([['sum2', 50]]))
  })

  it('requests of one session - stay with one version', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 100))
    const versions = Array.from({ length: 40 }, (_, session) => {
      const asked = Array.from({ length: 5 }, () =>
        fleet.registry.ready('storyteller', { sessionId: `s${session}` }),
      )
      expect(new Set(asked).size).toBe(1)
      return asked[0]?.version
    })
    expect(new Set(versions).size).toBe(2)
  })

  it("a request for one worker - gets that worker's version whatever the weights", () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 0))
    expect(drawn(fleet, 20)).toEqual(new Map([['sum1', 20]]))
    const asked = fleet.registry.ready('storyteller', { workerId: workerIdOf(2) })
    expect(asked.version).toBe('sum2')
  })

  it('a worker without a weight - is refused, and served as soon as an administrator sets one', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2))
    expect(fleet.news.at(-1)).toBe('refused 2 model version')
    fleet.registry.setWeight('storyteller', 'sum2', 100)
    expect(fleet.news.at(-1)).toBe('joined 2')
    expect(drawn(fleet, 200).size).toBe(2)
  })

  it('the old version leaves - the new one gets all requests', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 1))
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    expect(drawn(fleet, 20)).toEqual(new Map([['sum2', 20]]))
    expect(fleet.registry.models.length).toBe(1)
    expect(fleet.news.at(-1)).toBe('left 1 closed')
  })

  it('the old version dies - the new one gets all requests, and the old one is forgotten in time', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 1))
    fleet.registry.workerLeft(workerIdOf(1), 'expired')
    expect(drawn(fleet, 20)).toEqual(new Map([['sum2', 20]]))
    await fleet.pass(500)
    expect(fleet.registry.models.map(({ version }) => version)).toEqual(['sum2'])
    expect(fleet.news.at(-1)).toBe('left 1 expired')
  })

  it('a worker that comes back as another version - moves to that version', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(first(3))
    fleet.registry.workerJoined(next(2, 1))
    fleet.registry.workerJoined(next(3, 1))
    expect(fleet.registry.models.map(({ cards }) => cards.length)).toEqual([1, 2])
  })

  it('the version without a weight - serves also when it registers after one with a weight', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(next(2, 0))
    fleet.registry.workerJoined(first(3))
    expect(fleet.news).toEqual(['joined 2', 'joined 3'])
    expect(drawn(fleet, 20)).toEqual(new Map([['sum1', 20]]))
  })

  it('the version without a weight is restarted - it serves again, whatever the number of the others', async () => {
    for (const reason of ['closed', 'process-died']) {
      const fleet = new RegistryFleet({ modelForgetMs: 500 })
      fleet.registry.workerJoined(first(1))
      for (const id of [2, 3, 4]) fleet.registry.workerJoined(next(id, 0))
      fleet.registry.workerLeft(workerIdOf(1), reason)
      await fleet.pass(1_000)
      fleet.registry.workerJoined(first(5))
      expect(drawn(fleet, 20), reason).toEqual(new Map([['sum1', 20]]))
    }
  })

  it('another version without a weight - is refused by the one without a weight, not added', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    fleet.registry.workerJoined(next(2, 50))
    fleet.registry.workerJoined(first(1))
    const odd = { ...AGREED, weights: 'w3', checksum: 'sum3' }
    fleet.registry.workerJoined(cardOf(3, { agreement: odd }))
    expect(fleet.news.at(-1)).toBe('refused 3 model version')
    await fleet.pass(1_000)
    expect(serving(fleet)).toEqual([['2'], ['1']])
    // The one that it differs from has left for good.
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    expect(serving(fleet)).toEqual([['2'], ['3']])
  })

  it('the only version has weight 0 - it gets no requests, except those for one of its workers', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 0))
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    expect(() => fleet.registry.ready('storyteller')).toThrow(/weight/)
    expect(() => fleet.registry.ready(undefined)).toThrow(/weight/)
    expect((await fleet.scripted.chat()).status).toBe(503)
    const health = await fleet.health()
    expect([health.status, health.message]).toEqual([
      'not_ready',
      expect.stringMatching(/storyteller.*weight 0/),
    ])
    expect((await fleet.scripted.get('/ready')).status).toBe(503)
    expect((await fleet.scripted.get('/v1/models')).json.data).toEqual([])
    const asked = fleet.registry.ready('storyteller', { workerId: workerIdOf(2) })
    expect(asked.version).toBe('sum2')
    fleet.registry.setWeight('storyteller', 'sum2', 10)
    expect(drawn(fleet, 20)).toEqual(new Map([['sum2', 20]]))
  })

  it('every version has weight 0 - none gets requests, and the model is not ready', async () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 0))
    const ready = async () => (await fleet.scripted.get('/v1/models/storyteller/ready')).json
    expect(await ready()).toMatchObject({ ready: true })
    fleet.registry.setWeight('storyteller', 'sum1', 0)
    expect(() => fleet.registry.ready('storyteller')).toThrow(/weight/)
    expect(await ready()).toMatchObject({
      ready: false,
      reason: expect.stringMatching(/weight 0/),
      worker_types: { aggregated: 1 },
    })
    expect((await fleet.scripted.get('/v1/models/storyteller')).status).toBe(503)
  })

  it('the version with a weight has died beside one with weight 0 - the model is neither ready nor listed', async () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 0))
    fleet.registry.workerLeft(workerIdOf(1), 'expired')
    expect((await fleet.scripted.chat()).status).toBe(503)
    expect((await fleet.scripted.get('/v1/models/storyteller/ready')).json).toMatchObject({
      ready: false,
      reason: 'no worker of this model is registered',
    })
    expect((await fleet.scripted.get('/v1/models/storyteller')).status).toBe(503)
    expect((await fleet.scripted.get('/v1/models')).json.data).toEqual([])
  })

  it('the model was forgotten and comes back - the weights that an administrator has set hold', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    for (const card of [first(1), next(2, 50)]) fleet.registry.workerJoined(card)
    fleet.registry.setWeight('storyteller', 'sum2', 0)
    for (const id of [1, 2]) fleet.registry.workerLeft(workerIdOf(id), 'closed')
    await fleet.pass(500)
    expect(fleet.news.at(-1)).toBe('forgot storyteller')
    expect(fleet.registry.models).toEqual([])
    expect((await fleet.scripted.chat()).status).toBe(404)
    for (const card of [next(2, 50), first(1)]) fleet.registry.workerJoined(card)
    expect(drawn(fleet, 20)).toEqual(new Map([['sum1', 20]]))
  })

  it('a version with weight 0 that is older - does not stand for the name', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(next(2, 0))
    fleet.registry.workerJoined(first(3))
    expect(fleet.registry.names.known('storyteller').version).toBe('sum1')
  })

  it('a refused worker that agrees with a version that begins - joins it', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2))
    expect(serving(fleet)).toEqual([['1']])
    fleet.registry.workerJoined(next(3, 10))
    expect(serving(fleet)).toEqual([['1'], ['3', '2']])
  })

  it('the last worker with a weight leaves its version - the others of it are refused', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 10))
    fleet.registry.workerJoined(next(3))
    fleet.registry.workerLeft(workerIdOf(2), 'expired')
    // It may come back.
    expect(serving(fleet)).toEqual([['1'], ['3']])
    await fleet.pass(500)
    expect(serving(fleet)).toEqual([['1']])
    fleet.registry.workerJoined(next(2, 10))
    expect(serving(fleet)).toEqual([['1'], ['2', '3']])
    fleet.registry.workerLeft(workerIdOf(2), 'closed')
    expect(serving(fleet)).toEqual([['1']])
  })

  it('the version without a weight has died, and another worker without a weight joins - it has a router of its own', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(first(1))
    fleet.registry.workerJoined(next(2, 10))
    const router = fleet.registry.models.find(({ version }) => version === 'sum1')?.router
    fleet.registry.workerLeft(workerIdOf(1), 'expired')
    const odd = { ...AGREED, weights: 'w3', checksum: 'sum3' }
    fleet.registry.workerJoined(cardOf(3, { agreement: odd }))
    const model = fleet.registry.models.find(({ cards }) => cards[0]?.workerId === '3')
    expect(model?.version).toBe('sum3')
    expect(model?.router).not.toBe(router)
  })
})

function serving(fleet: RegistryFleet): readonly (readonly string[])[] {
  return fleet.registry.models.map(({ cards }) => cards.map(({ workerId }) => String(workerId)))
}
