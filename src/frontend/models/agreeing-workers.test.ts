import { describe, expect, it } from 'vitest'
import { AGREED, cardOf, RegistryFleet } from '../../../test/frontend/registry-fleet.ts'
import { card as plainCard } from '../../../test/frontend/scripted-frontend.ts'
import { BatonError, seededRandom, workerIdOf } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'

const FORGET_MS = 500
/** Workers that serve no longer are told after two looks at what waits for them. */
const TOLD_MS = 2_000
const OTHER = { ...AGREED, tokenizer: 't2', checksum: 'sum2' }

const good = (id: number): WorkerCard => cardOf(id)
const odd = (id: number): WorkerCard => cardOf(id, { agreement: OTHER })
/** States nothing but its context length. */
const silent = (id: number): WorkerCard => ({
  ...plainCard({}, workerIdOf(id)),
  startedAtEpochMs: id,
})

function fleetOf(cards: readonly WorkerCard[]): RegistryFleet {
  const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
  for (const card of cards) fleet.registry.workerJoined(card)
  return fleet
}

/** A frontend that starts now: it lists the workers before it serves. */
function startedNow(cards: readonly WorkerCard[]): RegistryFleet {
  const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
  fleet.registry.firstPicture.look()
  for (const card of cards) fleet.registry.workerJoined(card)
  fleet.registry.fleetFound()
  return fleet
}

function serving(fleet: RegistryFleet): readonly number[] {
  const cards = fleet.registry.models.flatMap((model) => model.cards)
  return cards.map(({ workerId }) => Number(workerId)).toSorted((left, right) => left - right)
}

describe('ModelRegistry - which workers serve when not all agree', () => {
  it('what only a worker has stated that has left - is not compared any more', () => {
    const fleet = fleetOf([good(1), silent(2), odd(3)])
    expect(serving(fleet)).toEqual([1, 2])
    const router = fleet.registry.models[0]?.router
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    expect(serving(fleet)).toEqual([2, 3])
    expect(serving(startedNow([silent(2), odd(3)]))).toEqual([2, 3])
    // The tokenizer of the first is not used for the third.
    expect(fleet.registry.models[0]?.router).not.toBe(router)
    fleet.registry.workerJoined(good(4))
    expect(fleet.news.at(-1)).toBe('refused 4 tokenizer')
  })

  it('a worker that joins after the one it differs from has left - is accepted', () => {
    const fleet = fleetOf([good(1), silent(2)])
    fleet.registry.workerLeft(workerIdOf(1), 'closed')
    fleet.registry.workerJoined(odd(3))
    expect(serving(fleet)).toEqual([2, 3])
  })

  it('it has died - the workers that differ from it wait for it', async () => {
    const fleet = fleetOf([good(1), silent(2), odd(3)])
    fleet.registry.workerLeft(workerIdOf(1), 'expired')
    expect(serving(fleet)).toEqual([2])
    await fleet.pass(FORGET_MS)
    expect(serving(fleet)).toEqual([2, 3])
  })

  it('a single odd worker that registered first - does not decide', async () => {
    const cards = [odd(1), good(2), good(3)]
    expect(serving(startedNow(cards))).toEqual([2, 3])
    const fleet = fleetOf(cards)
    expect(serving(fleet)).toEqual([1])
    await fleet.pass(FORGET_MS)
    expect(serving(fleet)).toEqual([2, 3])
    await fleet.pass(TOLD_MS)
    expect(fleet.news.at(-1)).toBe('refused 1 tokenizer')
  })

  it('an odd worker that is older than all others after they were restarted - does not decide', () => {
    const fleet = fleetOf([good(1), good(2), odd(3)])
    for (const [left, joined] of [
      [1, 4],
      [2, 5],
    ] as const) {
      fleet.registry.workerLeft(workerIdOf(left), 'closed')
      fleet.registry.workerJoined(good(joined))
    }
    expect(serving(fleet)).toEqual([4, 5])
    expect(serving(startedNow([odd(3), good(4), good(5)]))).toEqual([4, 5])
  })

  it('workers that flap - displace nobody as long as they are not more for the whole time', async () => {
    const fleet = fleetOf([good(1), good(2), odd(3), odd(4)])
    for (let turn = 0; turn < 5; turn++) {
      fleet.registry.workerJoined(odd(5))
      await fleet.pass(FORGET_MS - 1)
      fleet.registry.workerLeft(workerIdOf(5), 'expired')
    }
    expect(serving(fleet)).toEqual([1, 2])
    fleet.registry.workerJoined(odd(5))
    await fleet.pass(FORGET_MS)
    expect(serving(fleet)).toEqual([3, 4, 5])
  })

  it('workers to which no connection can be made - do not count', async () => {
    const fleet = fleetOf([good(1), odd(2), odd(3)])
    const strangers = new BatonError('transport.protocol', 'the shared secret differs')
    fleet.registry.workerUnreachable(workerIdOf(2), strangers)
    fleet.registry.workerUnreachable(workerIdOf(3), strangers)
    await fleet.pass(FORGET_MS)
    expect(serving(fleet)).toEqual([1])
    // A refused worker is told so over a connection of its own.
    const told = new BatonError('backend.worker_differs', 'it differs')
    fleet.registry.workerUnreachable(workerIdOf(2), told)
    fleet.registry.workerUnreachable(workerIdOf(3), told)
    await fleet.pass(FORGET_MS)
    expect(serving(fleet)).toEqual([2, 3])
  })

  it('a version of small weight that is listed first - does not shut out the larger one without a weight', () => {
    const canary = cardOf(1, { agreement: OTHER, weight: 1 })
    expect(serving(startedNow([canary, good(2), good(3)]))).toEqual([1, 2, 3])
    expect(serving(startedNow([good(2), good(3), canary]))).toEqual([1, 2, 3])
  })

  describe('workers to which no connection can be made, and one that differs from them', () => {
    const strangers = new BatonError('transport.protocol', 'the shared secret differs')
    const start = (): RegistryFleet =>
      new RegistryFleet({ modelForgetMs: FORGET_MS, reportsLinks: true })

    it('a frontend starts - the one serves as soon as the others could not be reached', async () => {
      const fleet = start()
      fleet.registry.firstPicture.look()
      for (const card of [good(1), odd(2), odd(3)]) fleet.registry.workerJoined(card)
      fleet.registry.fleetFound()
      expect(serving(fleet)).toEqual([2, 3])
      fleet.registry.workerUnreachable(workerIdOf(2), strangers)
      fleet.registry.workerUnreachable(workerIdOf(3), strangers)
      expect(serving(fleet)).toEqual([1])
      fleet.registry.workerReachable(workerIdOf(1))
      expect((await fleet.scripted.chat()).status).toBe(200)
    })

    it('the one is restarted - it serves again at once', async () => {
      const fleet = start()
      fleet.registry.workerJoined(good(1))
      fleet.registry.workerReachable(workerIdOf(1))
      for (const id of [2, 3]) {
        fleet.registry.workerJoined(odd(id))
        fleet.registry.workerUnreachable(workerIdOf(id), strangers)
      }
      fleet.registry.workerLeft(workerIdOf(1), 'closed')
      fleet.registry.workerJoined(good(4))
      expect(serving(fleet)).toEqual([4])
      fleet.registry.workerReachable(workerIdOf(4))
      expect((await fleet.scripted.chat()).status).toBe(200)
    })

    it('the others were connected and are lost - they may come back, as long as the time is not over', async () => {
      const fleet = start()
      for (const card of [odd(2), odd(3), good(4)]) fleet.registry.workerJoined(card)
      for (const id of [2, 3]) fleet.registry.workerReachable(workerIdOf(id))
      for (const id of [2, 3]) fleet.registry.workerUnreachable(workerIdOf(id), strangers)
      await fleet.pass(FORGET_MS - 1)
      expect(serving(fleet)).toEqual([2, 3])
      await fleet.pass(1)
      expect(serving(fleet)).toEqual([4])
    })
  })

  it('workers that were refused until all were listed - the frontend is not ready before it knows them', () => {
    const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS, reportsLinks: true })
    const { firstPicture } = fleet.registry
    firstPicture.look()
    for (const card of [odd(1), good(2), good(3)]) fleet.registry.workerJoined(card)
    fleet.registry.fleetFound()
    expect(serving(fleet)).toEqual([2, 3])
    expect(firstPicture.isComplete).toBe(false)
    firstPicture.settled(workerIdOf(2))
    expect(firstPicture.isComplete).toBe(false)
    firstPicture.settled(workerIdOf(3))
    expect(firstPicture.isComplete).toBe(true)
  })
})

/** States some facts at random, of two values each. */
function randomCard(random: Random, id: number): WorkerCard {
  const pick = <T>(left: T, right: T): T | undefined =>
    random.next() < 0.3 ? undefined : random.next() < 0.6 ? left : right
  const given = {
    tokenizer: pick('t1', 't2'),
    template: pick('c1', 'c2'),
    kvCacheBlockSize: pick(16, 32),
  }
  const { kvCacheBlockSize, ...agreement } = JSON.parse(JSON.stringify(given))
  const plain = plainCard(kvCacheBlockSize === undefined ? {} : { kvCacheBlockSize })
  return {
    ...plain,
    workerId: workerIdOf(id),
    agreement: { checksum: `sum${id}`, ...agreement },
    startedAtEpochMs: Math.floor(random.next() * 20),
  }
}

/** States all facts, so that it belongs to one of three versions; may have a weight. */
function weightedCard(random: Random, id: number): WorkerCard {
  const tokenizer = ['t1', 't2', 't3'][Math.floor(random.next() * 3)] ?? 't1'
  return cardOf(id, {
    agreement: { ...AGREED, tokenizer, checksum: `sum ${tokenizer}` },
    startedAtEpochMs: Math.floor(random.next() * 20),
    ...(random.next() < 0.3 ? { weight: Math.floor(random.next() * 3) } : {}),
  })
}

describe('ModelRegistry - workers that join and leave in any order', () => {
  it.each([
    ['some facts', randomCard, 0],
    ['weights of workers', weightedCard, 0],
    ['weights of workers and of an administrator', weightedCard, 0.06],
  ])(
    '%s: a frontend that saw all of it - serves the same workers as one that starts now',
    async (_, cardAt, tellShare) => {
      for (let seed = 0; seed < 100; seed++) {
        const random = seededRandom(seed)
        const fleet = new RegistryFleet({ modelForgetMs: FORGET_MS })
        const living = new Map<number, WorkerCard>()
        const told = new Map<string, number>()
        for (let step = 0; step < 40; step++) {
          const id = 1 + Math.floor(random.next() * 8)
          if (tellShare > 0 && random.next() < tellShare) {
            const version = `sum t${1 + Math.floor(random.next() * 3)}`
            told.set(version, Math.floor(random.next() * 3))
            tell(fleet, told)
          } else if (living.delete(id)) {
            fleet.registry.workerLeft(workerIdOf(id), random.next() < 0.5 ? 'closed' : 'expired')
          } else {
            const card = cardAt(random, id)
            living.set(id, card)
            fleet.registry.workerJoined(card)
          }
          if (random.next() < 0.2) await fleet.pass(FORGET_MS / 2)
        }
        await fleet.pass(2 * FORGET_MS)
        const cards = [...living.values()]
        const shuffled = cards.toSorted(() => random.next() - 0.5)
        for (const order of [cards, shuffled]) {
          const now = startedNow(order)
          tell(now, told)
          if (told.size > 0) await now.pass(FORGET_MS)
          expect(serving(fleet), `seed ${seed}`).toEqual(serving(now))
          expect(weights(fleet), `seed ${seed}`).toEqual(weights(now))
        }
      }
    },
  )
})

function tell({ registry }: RegistryFleet, told: ReadonlyMap<string, number>): void {
  for (const [version, weight] of told) registry.setWeight('storyteller', version, weight)
}

/** Of each worker that serves. */
function weights({ registry }: RegistryFleet): readonly string[] {
  const each = registry.models.flatMap((model) =>
    model.cards.map(({ workerId }) => `${workerId} ${registry.weightOf(model)}`),
  )
  return each.toSorted()
}
