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
})
