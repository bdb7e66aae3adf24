/** Discovery by addresses, with real connections to workers. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { workerIdOf } from '../base/index.ts'
import { until } from '../../test/until.ts'
import { AddressDiscovery } from './address-discovery.ts'
import type { FollowListener } from './address-discovery.ts'
import {
  AddressFleet,
  Answers,
  WITHOUT_REGISTER,
  at,
  discoveryOver,
} from '../../test/fixtures/address-fleet.ts'

/** Resolves when a worker that was lost just now has left, measured by another watch. */
async function outliveTimeToLive(): Promise<void> {
  const answers = new Answers().set(1, sampleCard(8))
  const record = new DiscoveryRecord()
  await discoveryOver(answers, () => Promise.resolve(at(1))).watch(record)
  answers.delete(1)
  await record.until('left 8 expired')
}

describe('AddressDiscovery', () => {
  it('a worker that answers joins with the address by which it was found; a draining one leaves; a silent one expires', async () => {
    const answers = new Answers().set(1, sampleCard(1, { host: '0.0.0.0' })).set(2, sampleCard(2))
    const record = new DiscoveryRecord()
    const watch = await discoveryOver(answers, () => Promise.resolve(at(1, 2, 3))).watch(record)
    expect([...watch.cards.keys()].toSorted()).toEqual(['1', '2'])
    expect(record.cards.get('1')).toMatchObject({ host: '127.0.0.1', port: 1 })
    answers.set(1, null)
    await record.until('left 1 closed')
    answers.delete(2)
    await record.until('left 2 expired')
    answers.set(1, sampleCard(1))
    await until('it is back', () => record.cards.has('1'))
  })

  it('the first workers - are reported oldest first, whoever answers first', async () => {
    const answers = new Answers()
    const ports = [1, 2, 3, 4]
    for (const port of ports) answers.set(port, sampleCard(port, { startedAtEpochMs: 100 - port }))
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(...ports))).watch(record)
    expect(record.told).toEqual(['joined 4', 'joined 3', 'joined 2', 'joined 1'])
  })

  it('a silent address - delays neither the others nor the start for longer than the others need', async () => {
    const record = new DiscoveryRecord()
    const silent: { listener?: FollowListener } = {}
    const discovery = new AddressDiscovery({
      addresses: () => Promise.resolve(at(1, 2)),
      follow: ({ port }, listener) => {
        if (port === 1) queueMicrotask(() => listener.onCard(sampleCard(1)))
        else silent.listener = listener
        return { close: () => undefined }
      },
    })
    onTestFinished(() => discovery.close())
    const watch = await discovery.watch(record)
    expect([...watch.cards.keys()]).toEqual(['1'])
    silent.listener?.onCard(sampleCard(2))
    expect(record.told).toEqual(['joined 1', 'joined 2'])
  })

  it('another worker at an address, and an address that was removed', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    let addresses = at(1)
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(addresses)).watch(record)
    answers.set(1, sampleCard(9))
    await record.until('joined 9')
    expect(record.told.slice(0, 3)).toEqual(['joined 1', 'left 1 replaced', 'joined 9'])
    addresses = []
    await record.until('left 9 closed')
  })

  it('a worker at two addresses - stays in use at the other when one is lost or removed', async () => {
    const card = sampleCard(1)
    const answers = new Answers().set(1, card).set(2, card)
    let addresses = at(1, 2)
    const record = new DiscoveryRecord()
    const port = () => record.cards.get('1')?.port
    await discoveryOver(answers, () => Promise.resolve(addresses)).watch(record)
    expect(record.told).toEqual(['joined 1', 'also 1 127.0.0.1:2 127.0.0.1:1'])
    answers.delete(1)
    await until('it is used at its other address', () => port() === 2)
    await outliveTimeToLive()
    answers.set(1, card)
    await until('connected again', () => answers.connections === 2)
    expect(port()).toBe(2)
    addresses = at(1)
    await until('it is used at the remaining address', () => port() === 1)
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
    answers.delete(1)
    await record.until('left 1 expired')
  })

  it('a worker at two addresses - that drains leaves once; one of them that gets another worker leaves it in use', async () => {
    const answers = new Answers().set(1, sampleCard(1)).set(2, sampleCard(1))
    const record = new DiscoveryRecord()
    const watch = await discoveryOver(answers, () => Promise.resolve(at(1, 2))).watch(record)
    answers.set(1, sampleCard(9))
    await record.until('joined 9')
    expect([watch.cards.get(workerIdOf(1))?.port, watch.cards.get(workerIdOf(9))?.port]).toEqual([
      2, 1,
    ])
    answers.set(1, sampleCard(1)).set(2, null).set(1, null)
    await record.until('left 1')
    const ofOne = record.told.filter((line) => line.includes('ed 1') || line.startsWith('left'))
    expect(ofOne).toEqual(['joined 1', 'joined 1', 'left 9 replaced', 'left 1 closed'])
  })

  it('a worker at two addresses that is lost at both - expires, and is not used at the other in between', async () => {
    const answers = new Answers().set(1, sampleCard(1)).set(2, sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1, 2))).watch(record)
    answers.delete(1)
    answers.delete(2)
    await record.until('left 1 expired')
    expect(record.told.filter((line) => line.startsWith('joined'))).toEqual(['joined 1'])
  })

  it('both addresses of a worker are removed at once - it leaves, and is not used at the other in between', async () => {
    const answers = new Answers().set(1, sampleCard(1)).set(2, sampleCard(1))
    let addresses = at(1, 2)
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(addresses)).watch(record)
    addresses = []
    await record.until('left 1 closed')
    expect(record.told.filter((line) => line.startsWith('joined'))).toEqual(['joined 1'])
  })

  it('a worker that has moved - is used at its new address, although the old one still answers', async () => {
    const answers = new Answers().set(1, sampleCard(1, { startedAtEpochMs: 1 }))
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1, 2))).watch(record)
    answers.set(2, sampleCard(1, { startedAtEpochMs: 2 }))
    await until('it is used there', () => record.cards.get('1')?.port === 2)
    answers.set(1, sampleCard(1, { startedAtEpochMs: 1, port: 7 }))
    expect(record.cards.get('1')?.port).toBe(2)
    answers.set(1, null)
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })

  it('an invalid card - is reported once and ignored', async () => {
    const answers = new Answers().set(1, { workerId: 'x' })
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1))).watch(record)
    answers.set(2, null)
    await record.until('unanswered 127.0.0.1:1')
    expect(record.cards.size).toBe(0)
  })

  it('a fleet without changes - is connected to once, and never again', async () => {
    const answers = new Answers()
    const ports = Array.from({ length: 1_000 }, (_, index) => index + 1)
    for (const port of ports) answers.set(port, sampleCard(port))
    let looks = 0
    const addresses = () => {
      looks += 1
      return Promise.resolve(at(...ports))
    }
    const watch = await discoveryOver(answers, addresses).watch(new DiscoveryRecord())
    expect(watch.cards.size).toBe(1_000)
    await until('20 polls', () => looks > 20)
    expect([answers.dials, answers.connections]).toEqual([1_000, 1_000])
    watch.close()
    expect(answers.connections).toBe(0)
  })

  it('an address without a worker - is tried with growing pauses', async () => {
    const answers = new Answers()
    let looks = 0
    const addresses = () => {
      looks += 1
      return Promise.resolve(at(1))
    }
    const record = new DiscoveryRecord()
    await discoveryOver(answers, addresses).watch(record)
    await until('40 polls', () => looks > 40)
    expect(answers.dials).toBeLessThan(10)
    answers.set(1, sampleCard(1))
    await record.until('joined 1')
  })

  it('a worker that is lost and back within its time to live - never leaves', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1)), 60_000).watch(record)
    answers.delete(1)
    answers.set(1, sampleCard(1))
    await until('connected again', () => answers.connections === 1)
    expect(record.told).toEqual(['joined 1'])
  })

  it('an address that is removed while it is tried - does not delay others', async () => {
    let addresses: readonly number[] = []
    let dials = 0
    const discovery = new AddressDiscovery({
      addresses: () => Promise.resolve(at(...addresses)),
      follow: ({ port }, listener) => {
        dials += 1
        if (port === 999) queueMicrotask(() => listener.onCard(sampleCard(port)))
        return { close: () => undefined }
      },
      pollMs: 20,
    })
    onTestFinished(() => discovery.close())
    const record = new DiscoveryRecord()
    await discovery.watch(record)
    addresses = Array.from({ length: 200 }, (_, index) => index + 1)
    await until('128 are dialled and say nothing', () => dials === 128)
    addresses = [999]
    await record.until('joined 999')
    expect(dials).toBe(129)
  })

  it('the source of addresses is unavailable - the known workers stay in use', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    let isAway = false
    const record = new DiscoveryRecord()
    const addresses = () => (isAway ? Promise.reject(new Error('503')) : Promise.resolve(at(1)))
    await discoveryOver(answers, addresses).watch(record)
    isAway = true
    await record.until('away')
    isAway = false
    await record.until('back')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })

  it('the reason why the source of addresses is unavailable changes - the new one is reported, once', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    let why: string | null = null
    let looks = 0
    const record = new DiscoveryRecord()
    const addresses = () => {
      looks += 1
      return why === null ? Promise.resolve(at(1)) : Promise.reject(new Error(why))
    }
    await discoveryOver(answers, addresses).watch(record)
    for (why of ['refused', '403', null, '403']) {
      const before = looks
      await until('it was asked twice', () => looks > before + 2)
    }
    expect(record.told).toEqual(['joined 1', 'away refused', 'away 403', 'back', 'away 403'])
  })

  it('the source of addresses is unavailable - a worker that restarts at a known address is used again', async () => {
    const answers = new Answers().set(1, sampleCard(1)).set(2, sampleCard(2))
    let isAway = false
    const record = new DiscoveryRecord()
    const addresses = () => (isAway ? Promise.reject(new Error('503')) : Promise.resolve(at(1, 2)))
    await discoveryOver(answers, addresses).watch(record)
    isAway = true
    await record.until('away')
    answers.delete(1)
    answers.set(1, sampleCard(9))
    await record.until('joined 9')
    // Nor does one that does not return stay in use for ever.
    answers.delete(2)
    await record.until('left 2 expired')
    expect(record.told).not.toContain('back')
  })
})

describe('static: - the contract of every discovery, except that ids are not refused', () => {
  it.each(WITHOUT_REGISTER)('$name', async ({ run }) => {
    const listed = at(...Array.from({ length: 10 }, (_, index) => 1000 + index))
    const nothing = { put: () => undefined, remove: () => undefined }
    const fleet = new AddressFleet(() => Promise.resolve(listed), nothing)
    for (const { port } of listed) fleet.answers.set(port, null)
    onTestFinished(() => fleet.discovery.close())
    await run({ worker: fleet.asWorker(), frontend: fleet.discovery })
  })
})
