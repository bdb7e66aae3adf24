import { describe, expect, it } from 'vitest'
import { AGREED, cardOf, RegistryFleet } from '../../../test/frontend/registry-fleet.ts'
import { card } from '../../../test/frontend/scripted-frontend.ts'
import { BatonError, workerIdOf } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'

describe('ModelRegistry - workers under one name have to agree', () => {
  const DIFFERENT: readonly (readonly [string, Partial<WorkerCard>])[] = [
    ['block size', { engine: { model: 'storyteller', contextLength: 4096, kvCacheBlockSize: 32 } }],
    [
      'context length',
      { engine: { model: 'storyteller', contextLength: 4095, kvCacheBlockSize: 16 } },
    ],
    ['vocabulary', { agreement: { ...AGREED, vocabulary: 'v2' } }],
    ['tokenizer', { agreement: { ...AGREED, tokenizer: 't2' } }],
    ['chat template', { agreement: { ...AGREED, template: 'c2' } }],
  ]

  it.each(DIFFERENT)(
    'another %s - is refused by name and gets no requests',
    async (field, change) => {
      const fleet = new RegistryFleet()
      fleet.registry.workerJoined(cardOf(1))
      fleet.registry.workerJoined(cardOf(2, change))
      expect(fleet.news).toEqual(['joined 1', `refused 2 ${field}`])
      const health = await fleet.health()
      expect(health.models[0].workers).toMatchObject([{ worker_id: 1 }])
      expect(health.models[0].refused).toMatchObject([{ worker_id: 2, differs: [{ field }] }])
      expect(health.warnings.join()).toContain(`worker 2 gets no requests`)
      expect(health.warnings.join()).toContain(field)
    },
  )

  it('a fact that one card does not state - is not compared', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(card({}, workerIdOf(2)))
    fleet.registry.workerJoined(cardOf(3, { agreement: { checksum: 'x' } }))
    expect(fleet.news).toEqual(['joined 1', 'joined 2', 'joined 3'])
  })

  it('a fact that only a later worker states - applies to those after it', () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(card({}, workerIdOf(1)))
    fleet.registry.workerJoined(card({ kvCacheBlockSize: 16 }, workerIdOf(2)))
    fleet.registry.workerJoined(card({ kvCacheBlockSize: 32 }, workerIdOf(3)))
    expect(fleet.news.at(-1)).toBe('refused 3 block size')
  })

  it('a worker that changes its card - is accepted or refused anew', () => {
    const fleet = new RegistryFleet()
    const [, blocks32] = DIFFERENT[0] ?? ['', {}]
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(cardOf(2, blocks32))
    fleet.registry.workerJoined(cardOf(2))
    fleet.registry.workerJoined(cardOf(1, blocks32))
    expect(fleet.news).toEqual([
      'joined 1',
      'refused 2 block size',
      'joined 2',
      'refused 1 block size',
    ])
    expect(fleet.registry.models[0]?.cards.map(({ workerId }) => workerId)).toEqual(['2'])
  })

  it('the last of the agreeing workers leaves in order - the refused ones take over', () => {
    const fleet = new RegistryFleet()
    const [, blocks32] = DIFFERENT[0] ?? ['', {}]
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(cardOf(3, blocks32))
    fleet.registry.workerJoined(cardOf(2, blocks32))
    const router = fleet.registry.models[0]?.router
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    expect(fleet.news.slice(3)).toEqual(['left 1 closed', 'joined 2', 'joined 3'])
    expect(fleet.registry.models[0]?.router).not.toBe(router)
  })

  it('the last of the agreeing workers dies - the refused ones wait; the first that comes back decides', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 500 })
    const [, blocks32] = DIFFERENT[0] ?? ['', {}]
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(cardOf(2, blocks32))
    fleet.registry.workerLeft(workerIdOf(1), 'process-died')
    expect(fleet.registry.models[0]?.cards).toEqual([])
    fleet.registry.workerJoined(cardOf(4))
    expect(fleet.news.slice(2)).toEqual(['left 1 process-died', 'joined 4'])
    fleet.registry.workerLeft(workerIdOf(4), 'expired')
    await fleet.pass(500)
    expect(fleet.news.slice(4)).toEqual(['left 4 expired', 'joined 2'])
  })

  it('the only worker comes back different - a new router is made, and refused workers are checked again', () => {
    const fleet = new RegistryFleet()
    const [, blocks32] = DIFFERENT[0] ?? ['', {}]
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(cardOf(2, blocks32))
    const router = fleet.registry.models[0]?.router
    fleet.registry.workerJoined(cardOf(1, blocks32))
    expect(fleet.news.slice(2)).toEqual(['joined 1', 'joined 2'])
    expect(fleet.registry.models[0]?.router).not.toBe(router)
  })
})

describe('ModelRegistry - a model whose last worker has left', () => {
  it('is 503 until it is forgotten, then 404 and gone from every list', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 5_000 })
    const { scripted, registry } = fleet
    registry.workerJoined(cardOf(1))
    registry.workerLeft(workerIdOf(1), 'closed')
    expect((await scripted.chat()).status).toBe(503)
    await fleet.pass(4_999)
    expect((await scripted.chat()).status).toBe(503)
    await fleet.pass(1)
    expect((await scripted.chat()).status).toBe(404)
    expect((await fleet.health()).models).toEqual([])
    expect((await scripted.get('/v1/models')).json.data).toEqual([])
    expect(fleet.news.at(-1)).toBe('forgot storyteller')
  })

  it('a worker that comes back in time - keeps the model', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 5_000 })
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    await fleet.pass(4_999)
    fleet.registry.workerJoined(cardOf(2))
    await fleet.pass(60_000)
    expect((await fleet.scripted.chat()).status).toBe(200)
  })

  it('0 - the model is forgotten in the same turn of the clock', async () => {
    const fleet = new RegistryFleet({ modelForgetMs: 0 })
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    await fleet.pass(0)
    expect((await fleet.scripted.chat()).status).toBe(404)
  })

  it('a request without a model - gets the only remaining one', async () => {
    const fleet = new RegistryFleet()
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerJoined(cardOf(2, { engine: { model: 'other', contextLength: 4096 } }))
    const ask = () => fleet.scripted.post('/v1/completions', { prompt: 'hi' })
    expect((await ask()).status).toBe(400)
    fleet.registry.workerLeft(workerIdOf(2), 'closed')
    expect((await ask()).json.model).toBe('storyteller')
  })

  it('before the first worker ever - 503 with Retry-After, whatever the name', async () => {
    const fleet = new RegistryFleet()
    for (const reply of [
      await fleet.scripted.chat(),
      await fleet.scripted.chat({ model: 'anything' }),
      await fleet.scripted.get('/v1/models/anything'),
    ]) {
      expect(reply.status).toBe(503)
      expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0)
    }
  })
})

describe('ModelRegistry - the first picture of a fleet', () => {
  it('is complete when each listed worker has reported, failed, left or been refused', async () => {
    const fleet = new RegistryFleet({ reportsLinks: true })
    const ready = async () => {
      const { status, json } = await fleet.scripted.get('/ready')
      return [status, json.reason]
    }
    const { registry } = fleet
    const { firstPicture } = registry
    firstPicture.look()
    for (const id of [1, 2, 3, 4]) registry.workerJoined(cardOf(id))
    registry.workerJoined(cardOf(5, { agreement: { ...AGREED, tokenizer: 't2' } }))
    registry.workerReachable(workerIdOf(1))
    expect(await ready()).toEqual([503, 'joining: waiting for discovery to list the workers'])
    firstPicture.settled(workerIdOf(1))
    registry.fleetFound()
    const joining = (known: number): unknown[] => [
      503,
      `joining: ${known} of 4 workers have reported what they run and have cached`,
    ]
    expect(await ready()).toEqual(joining(1))
    registry.workerReachable(workerIdOf(2))
    expect(await ready()).toEqual(joining(1))
    firstPicture.settled(workerIdOf(2))
    expect(await ready()).toEqual(joining(2))
    registry.workerUnreachable(workerIdOf(3), new BatonError('transport.cannot_connect', 'refused'))
    expect(await ready()).toEqual(joining(3))
    registry.workerLeft(workerIdOf(4), 'closed')
    await firstPicture.completed()
    expect(await ready()).toEqual([200, undefined])
    registry.workerJoined(cardOf(6))
    expect(await ready()).toEqual([200, undefined])
  })

  it('a fleet without workers, and a program without discovery - are complete at once', async () => {
    const fleet = new RegistryFleet({ reportsLinks: true })
    const { firstPicture } = fleet.registry
    expect(firstPicture.isComplete).toBe(true)
    firstPicture.look()
    fleet.registry.fleetFound()
    expect(firstPicture.isComplete).toBe(true)
  })
})

describe('ModelRegistry - connections', () => {
  it('a worker counts from its connection on, in either order of card and connection', () => {
    const fleet = new RegistryFleet({ reportsLinks: true })
    fleet.registry.workerJoined(cardOf(1))
    const [model] = fleet.registry.models
    expect([model?.reachable.length, model?.unreachable.length]).toEqual([0, 1])
    fleet.registry.workerReachable(workerIdOf(1))
    expect(model?.reachable.length).toBe(1)
    fleet.registry.workerReachable(workerIdOf(2))
    fleet.registry.workerJoined(cardOf(2))
    expect(model?.reachable.length).toBe(2)
  })

  it('a lost or refused connection - is named by health and ready, and reported once per reason', async () => {
    const fleet = new RegistryFleet({ reportsLinks: true })
    const broken = new BatonError('transport.disconnected', 'the peer hung up')
    const wrong = new BatonError('transport.protocol', 'the shared secret differs')
    fleet.registry.workerJoined(cardOf(1))
    fleet.registry.workerReachable(workerIdOf(1))
    for (const fault of [broken, wrong, wrong]) {
      fleet.registry.workerUnreachable(workerIdOf(1), fault)
    }
    expect(fleet.news).toEqual([
      'joined 1',
      'unreachable 1 the peer hung up',
      'unreachable 1 the shared secret differs',
    ])
    const health = await fleet.health()
    expect(health.models[0]).toMatchObject({
      workers: [],
      unreachable: [{ worker_id: 1, reason: 'the shared secret differs' }],
    })
    expect(health.warnings.join()).toContain('the shared secret differs')
  })
})
