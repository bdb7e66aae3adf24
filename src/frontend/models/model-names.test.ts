import { describe, expect, it } from 'vitest'
import { AGREED, cardOf, RegistryFleet } from '../../../test/frontend/registry-fleet.ts'
import { BatonError, seededRandom, workerIdOf } from '../../base/index.ts'
import type { EngineConfig, WorkerCard } from '../../request/index.ts'

const FORGET_MS = 5_000

function worker(id: number, engine: Partial<EngineConfig> = {}, more: Partial<WorkerCard> = {}) {
  const usual = cardOf(id, more)
  return { ...usual, engine: { ...usual.engine, ...engine } }
}

const namesOf = async ({ scripted }: RegistryFleet): Promise<string[]> =>
  (await scripted.get('/v1/models')).json.data.map(({ id }: { id: string }) => id)

describe('further names: aliases and adapters', () => {
  it.each([
    ['an alias', { modelAliases: ['poet'] }, 200],
    ['an adapter', { loraAdapters: ['poet'] }, 503],
  ])('%s that no worker has any more - is forgotten after the time', async (_, engine, status) => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
    const { registry, scripted } = fleet
    registry.workerJoined(worker(1, engine))
    registry.workerJoined(worker(2))
    registry.workerLeft(workerIdOf(1), 'closed')
    expect((await scripted.chat({ model: 'poet' })).status).toBe(status)
    await fleet.pass(FORGET_MS - 1)
    expect(await namesOf(fleet)).toEqual(['storyteller', 'poet'])
    await fleet.pass(1)
    expect(await namesOf(fleet)).toEqual(['storyteller'])
    expect((await scripted.chat({ model: 'poet' })).status).toBe(404)
    expect((await scripted.chat({ model: 'storyteller' })).status).toBe(200)
  })

  it('a card without the name, or a worker that is refused - counts as having left', async () => {
    for (const changed of [worker(1), worker(1, { loraAdapters: ['poet'], contextLength: 8 })]) {
      const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
      fleet.registry.workerJoined(worker(1, { loraAdapters: ['poet'] }))
      fleet.registry.workerJoined(worker(2))
      fleet.registry.workerJoined(worker(3))
      fleet.registry.workerJoined(changed)
      await fleet.pass(FORGET_MS)
      expect(await namesOf(fleet)).toEqual(['storyteller'])
    }
  })

  it('a worker that comes back in time - keeps the name', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
    const poet = worker(1, { loraAdapters: ['poet'] })
    fleet.registry.workerJoined(poet)
    fleet.registry.workerJoined(worker(2))
    fleet.registry.workerLeft(workerIdOf(1), 'expired')
    await fleet.pass(FORGET_MS - 1)
    fleet.registry.workerJoined(poet)
    await fleet.pass(FORGET_MS)
    expect((await fleet.scripted.chat({ model: 'poet' })).status).toBe(200)
  })

  it('an adapter whose worker cannot be reached - its requests do not go to another one', async () => {
    const fleet = new RegistryFleet({ reportsLinks: true })
    for (const card of [worker(1, { loraAdapters: ['poet'] }), worker(2)]) {
      fleet.registry.workerJoined(card)
      fleet.registry.workerReachable(card.workerId)
    }
    expect((await fleet.scripted.chat({ model: 'poet' })).status).toBe(200)
    fleet.registry.workerUnreachable(
      workerIdOf(1),
      new BatonError('transport.disconnected', 'gone'),
    )
    expect((await fleet.scripted.chat({ model: 'poet' })).status).toBe(503)
    expect((await fleet.scripted.chat({ model: 'storyteller' })).status).toBe(200)
  })

  it('two models with one alias - the first has it, the conflict is reported, and the other takes over', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
    const { registry } = fleet
    registry.workerJoined(worker(1, { model: 'a', modelAliases: ['fast'] }))
    registry.workerJoined(worker(2, { model: 'b', modelAliases: ['fast'] }))
    expect(fleet.news).toContain('taken fast by a, not b')
    expect(registry.ready('fast').name).toBe('a')
    expect((await fleet.health()).warnings).toContain(
      'requests for fast go to model a; workers of b also have this name',
    )
    registry.workerLeft(workerIdOf(1), 'closed')
    await fleet.pass(FORGET_MS)
    expect(registry.ready('fast').name).toBe('b')
    expect((await fleet.health()).warnings.join()).not.toContain('fast')
  })

  describe('two models with one alias, at frontends that started at different times', () => {
    const bot = (id: number, model: string): WorkerCard =>
      worker(id, { model, modelAliases: ['bot'] })
    const startedNow = (cards: readonly WorkerCard[], reportsLinks = false): RegistryFleet => {
      const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS, reportsLinks })
      fleet.registry.firstPicture.look()
      for (const card of cards) fleet.registry.workerJoined(card)
      fleet.registry.fleetFound()
      return fleet
    }
    const ownerAt = ({ registry }: RegistryFleet): string | undefined =>
      registry.names.find('bot')?.main?.name

    it('the one with more workers has it, of two with equally many the one with the oldest', () => {
      for (const [cards, owner] of [
        [[bot(1, 'x'), bot(2, 'y')], 'x'],
        [[bot(1, 'x'), bot(2, 'y'), bot(3, 'y')], 'y'],
        [[bot(3, 'x'), bot(2, 'y'), worker(1, { model: 'x' })], 'y'],
      ] as const) {
        expect(ownerAt(startedNow(cards))).toBe(owner)
        expect(ownerAt(startedNow(cards.toReversed()))).toBe(owner)
      }
    })

    it('a frontend that has been there - agrees after the time, in which nothing changes', async () => {
      const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
      const { registry } = fleet
      for (const card of [bot(1, 'x'), bot(2, 'y'), bot(3, 'x')]) registry.workerJoined(card)
      registry.workerLeft(workerIdOf(1), 'closed')
      expect(ownerAt(startedNow([bot(2, 'y'), bot(3, 'x')]))).toBe('y')
      await fleet.pass(FORGET_MS - 1)
      expect(ownerAt(fleet)).toBe('x')
      await fleet.pass(1)
      expect(ownerAt(fleet)).toBe('y')
      expect((await fleet.health()).warnings).toContain(
        'requests for bot go to model y; workers of x also have this name',
      )
    })

    it('a model that is larger for a moment - does not get it', async () => {
      const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
      const { registry } = fleet
      for (const card of [bot(1, 'x'), bot(2, 'y')]) registry.workerJoined(card)
      for (let turn = 0; turn < 4; turn++) {
        registry.workerJoined(bot(3, 'y'))
        await fleet.pass(FORGET_MS - 1)
        registry.workerLeft(workerIdOf(3), 'closed')
      }
      expect(ownerAt(fleet)).toBe('x')
    })

    it('workers that cannot be reached - do not count', async () => {
      const fleet = startedNow([bot(1, 'x'), bot(2, 'y'), bot(3, 'y')], true)
      const strangers = new BatonError('transport.protocol', 'the shared secret differs')
      for (const id of [2, 3]) fleet.registry.workerUnreachable(workerIdOf(id), strangers)
      fleet.registry.workerReachable(workerIdOf(1))
      expect(ownerAt(fleet)).toBe('x')
      for (const id of [2, 3]) fleet.registry.workerReachable(workerIdOf(id))
      fleet.registry.firstPicture.settled(workerIdOf(1))
      await fleet.pass(FORGET_MS)
      expect(ownerAt(fleet)).toBe('y')
    })

    it('workers that join and leave in any order - the same model as at a frontend that starts now', async () => {
      for (let seed = 0; seed < 60; seed++) {
        const random = seededRandom(seed)
        const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
        const living = new Map<number, WorkerCard>()
        for (let step = 0; step < 30; step++) {
          const id = 1 + Math.floor(random.next() * 6)
          if (living.delete(id)) {
            fleet.registry.workerLeft(workerIdOf(id), random.next() < 0.5 ? 'closed' : 'expired')
          } else {
            const model = ['x', 'y', 'z'][Math.floor(random.next() * 3)] ?? 'x'
            const card = { ...bot(id, model), startedAtEpochMs: step }
            living.set(id, card)
            fleet.registry.workerJoined(card)
          }
          if (random.next() < 0.2) await fleet.pass(FORGET_MS / 2)
        }
        await fleet.pass(2 * FORGET_MS)
        const cards = [...living.values()].toSorted(() => random.next() - 0.5)
        expect(ownerAt(fleet), `seed ${seed}`).toBe(ownerAt(startedNow(cards)))
      }
    })
  })

  it("a model's own name - precedes the alias of another, and gives it back when it is forgotten", async () => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
    const { registry } = fleet
    registry.workerJoined(worker(1, { model: 'a', modelAliases: ['b'] }))
    registry.workerJoined(worker(2, { model: 'b' }))
    expect(registry.ready('b').name).toBe('b')
    expect(fleet.news).toContain('taken b by b, not a')
    registry.workerLeft(workerIdOf(2), 'closed')
    await fleet.pass(FORGET_MS)
    expect(registry.ready('b').name).toBe('a')
  })

  it('an adapter that only one version of a model has - its requests go to that version', () => {
    const { registry } = new RegistryFleet()
    const next = { agreement: { ...AGREED, weights: 'w2', checksum: 'sum2' }, weight: 50 }
    const first = { agreement: { ...AGREED, weights: 'w1' } }
    registry.workerJoined(worker(1, {}, first))
    registry.workerJoined(worker(2, { loraAdapters: ['poet'] }, next))
    const asked = Array.from({ length: 50 }, () => registry.ready('poet'))
    expect(new Set(asked.map(({ version }) => version))).toEqual(new Set(['sum2']))
    expect(asked[0]?.adapterNamed('poet')).toBe('poet')
    // The version that is left never had it: its answer would be that of the base model.
    registry.workerLeft(workerIdOf(2), 'expired')
    expect(() => registry.ready('poet').adapterNamed('poet')).toThrow('adapter `poet`')
  })

  it.each([
    ["the model's own name", 'storyteller', {}],
    ['an alias of the model', 'poet', { modelAliases: ['poet'] }],
  ])(
    "an adapter with %s - does not get the model's requests, and is reported",
    async (_, name, engine) => {
      const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
      const { registry, scripted } = fleet
      registry.workerJoined(worker(1, engine))
      registry.workerJoined(worker(2, { ...engine, loraAdapters: [name] }))
      expect((await scripted.chat({ model: name })).status).toBe(200)
      expect(scripted.requests.map(({ routing }) => routing.loraName)).toEqual([undefined])
      expect((await fleet.health()).warnings.join()).toContain(
        `adapter ${name} of worker 2 gets no requests`,
      )
      registry.workerLeft(workerIdOf(2), 'closed')
      expect((await scripted.chat({ model: name })).status).toBe(200)
      await fleet.pass(2 * FORGET_MS)
      expect((await scripted.chat({ model: name })).status).toBe(200)
      expect((await fleet.health()).warnings.join()).not.toContain('adapter')
    },
  )

  it('an alias with the name of an adapter that was forgotten - is the model', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
    const { registry, scripted } = fleet
    registry.workerJoined(worker(1, { loraAdapters: ['poet'] }))
    registry.workerJoined(worker(2))
    registry.workerLeft(workerIdOf(1), 'closed')
    await fleet.pass(FORGET_MS)
    registry.workerJoined(worker(3, { modelAliases: ['poet'] }))
    expect((await scripted.chat({ model: 'poet' })).status).toBe(200)
  })
})

describe('embeddings', () => {
  it('of another length - a worker that differs is refused', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(worker(1, { embeddingLength: 64 }))
    fleet.registry.workerJoined(worker(2, { embeddingLength: 128 }))
    fleet.registry.workerJoined(worker(3))
    expect(fleet.news).toEqual(['joined 1', 'refused 2 embedding length', 'joined 3'])
  })

  it('with an adapter - the request carries it', async () => {
    const fleet = new RegistryFleet()
    const engine = { features: ['embeddings'], embeddingLength: 2, loraAdapters: ['poet'] } as const
    fleet.registry.workerJoined(worker(1, engine))
    const { scripted } = fleet
    scripted.script = (run) =>
      void run.chunk({ tokenIds: [], finish: 'stop', embedding: Float32Array.of(1, 0) })
    const body = JSON.stringify({ model: 'poet', input: 'hi' })
    expect((await scripted.send('POST', '/v1/embeddings', { body })).status).toBe(200)
    expect(scripted.requests[0]?.routing.loraName).toBe('poet')
  })
})

describe('a frontend that is closed', () => {
  const named = (id: number, model: string) => worker(id, { model, modelAliases: ['both'] })

  it.each([
    ['no worker has any more', [named(1, 'one')], [1]],
    ['another model should have', [named(1, 'one'), named(2, 'two'), named(3, 'two')], []],
  ])('a name that %s - leaves no timer that keeps the process', (_name, cards, leaving) => {
    const { registry, scripted } = new RegistryFleet()
    for (const card of cards) registry.workerJoined(card)
    for (const id of leaving) registry.workerLeft(workerIdOf(id), 'closed')
    scripted.frontend.close()
    expect(scripted.clock.nextMs).toBe(null)
  })
})
