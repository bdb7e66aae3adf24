import { describe, expect, it } from 'vitest'
import { BatonError, workerIdOf } from '../base/index.ts'
import { VirtualClock } from '../sim/index.ts'
import type { WorkerCard } from '../request/index.ts'
import { Membership } from './membership.ts'

const CARD: WorkerCard = {
  workerId: workerIdOf(1),
  mode: 'agg',
  host: '127.0.0.1',
  port: 1,
  engine: { model: 'm' },
  engineName: 'sim',
  publishesKvEvents: false,
  version: '0',
}

/** A discovery in which registering takes until it is let through. */
function slowDiscovery(): {
  readonly membership: Membership
  readonly entries: Set<number>
  readonly letThrough: () => Promise<void>
} {
  const entries = new Set<number>()
  const held: (() => void)[] = []
  let count = 0
  const register = async () => {
    await new Promise<void>((resolve) => held.push(resolve))
    const entry = ++count
    entries.add(entry)
    return {
      update: () => Promise.resolve(),
      close: () => {
        entries.delete(entry)
        return Promise.resolve()
      },
    }
  }
  const membership = new Membership({ clock: new VirtualClock(), card: CARD, register })
  const letThrough = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) {
      held.shift()?.()
      await Promise.resolve()
    }
  }
  return { membership, entries, letThrough }
}

/** A registered worker, and a discovery that can be broken. */
async function brokenDiscovery() {
  const clock = new VirtualClock()
  const calls: string[] = []
  const told: string[] = []
  const state = { isBroken: false }
  const reach = (call: string): void => {
    calls.push(call)
    if (state.isBroken) throw new BatonError('host.disk_full', 'no space')
  }
  const membership = new Membership({
    clock,
    card: CARD,
    register: async () => {
      reach('register')
      const update = async ({ engine }: WorkerCard) => reach(`update ${engine.model}`)
      return { update, close: async () => reach('unregister') }
    },
    onFault: ({ code }, isWanted) => told.push(`${code} ${isWanted ? 'in' : 'out'}`),
    onTold: (isMember) => told.push(isMember ? 'in' : 'out'),
  })
  await membership.open()
  const passed = (ms: number): Promise<number> => clock.run(clock.nowMs() + ms)
  return { membership, clock, calls, told, state, passed }
}

const withModel = (model: string): WorkerCard => ({ ...CARD, engine: { model } })

describe('Membership - a changed card', () => {
  it('while it is registered - the entry is changed, and the worker never leaves', async () => {
    const { membership, calls, passed } = await brokenDiscovery()
    membership.setCard(withModel('a'))
    await passed(1)
    expect([calls, membership.isMember]).toEqual([['register', 'update a'], true])
    expect(membership.card.engine.model).toBe('a')
  })

  it('while it is absent - it rejoins with the new card', async () => {
    const { membership, calls } = await brokenDiscovery()
    await membership.setAbsent('engine-away', true)
    membership.setCard(withModel('a'))
    await membership.setAbsent('engine-away', false)
    expect(calls).toEqual(['register', 'unregister', 'register'])
  })

  it('while discovery fails - the newest card is told when it works again', async () => {
    const { membership, calls, state, passed } = await brokenDiscovery()
    state.isBroken = true
    membership.setCard(withModel('a'))
    await passed(1)
    membership.setCard(withModel('b'))
    await passed(1)
    state.isBroken = false
    await passed(60_000)
    expect(calls.at(-1)).toBe('update b')
    expect(calls.filter((call) => call === 'update b').length).toBeGreaterThanOrEqual(2)
    const count = calls.length
    await passed(60_000)
    expect([calls.length, membership.fault]).toEqual([count, null])
  })
})

describe('Membership', () => {
  it('two concurrent changes - make one entry, and leaving removes it', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = [membership.open(), membership.setAbsent('drained', false)]
    await letThrough()
    await Promise.all(joined)
    expect(entries.size).toBe(1)
    await membership.setAbsent('drained', true)
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('leaving during a join - waits for the entry and removes it', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.open()
    await Promise.resolve()
    expect(membership.isMember).toBe(false)
    expect(membership.isOut).toBe(false)
    const left = membership.setAbsent('drained', true)
    await letThrough()
    await Promise.all([joined, left])
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('after close - does not join any more, but leaves', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.open()
    await letThrough()
    await joined
    membership.close()
    await membership.leave()
    await membership.setAbsent('drained', false)
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('several reasons to be absent - it rejoins when the last of them has ended', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.open()
    await letThrough()
    await joined
    await membership.setAbsent('drained', true)
    await membership.setAbsent('engine-away', true)
    await membership.setAbsent('drained', false)
    expect(entries.size).toBe(0)
    expect(membership.isMissing).toBe(false)
    const back = membership.setAbsent('engine-away', false)
    expect(membership.isMissing).toBe(true)
    await letThrough()
    await back
    expect(membership.isMissing).toBe(false)
    expect(entries.size).toBe(1)
  })

  it('absent before it has joined - it joins when the reason has ended', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    await membership.setAbsent('engine-away', true)
    await membership.open()
    expect(membership.isOut).toBe(true)
    const back = membership.setAbsent('engine-away', false)
    await letThrough()
    await back
    expect(entries.size).toBe(1)
  })
})

describe('Membership - a discovery that fails', () => {
  it('the first registration - fails with its reason and is not repeated', async () => {
    const clock = new VirtualClock()
    let attempts = 0
    const register = () => (attempts++, Promise.reject(new Error('no folder')))
    const membership = new Membership({ clock, card: CARD, register })
    await expect(membership.open()).rejects.toThrow('no folder')
    expect(membership.isOut).toBe(true)
    await clock.run(60_000)
    expect(attempts).toBe(1)
  })

  it('a join - is repeated after growing pauses until it succeeds; the fault is reported once', async () => {
    const { membership, calls, told, state, passed } = await brokenDiscovery()
    await membership.setAbsent('engine-away', true)
    state.isBroken = true
    calls.length = 0
    expect(await membership.setAbsent('engine-away', false)).toMatchObject({
      code: 'host.disk_full',
    })
    await passed(60_000)
    expect(calls.length).toBeGreaterThan(10)
    expect(calls.length).toBeLessThan(20)
    expect(membership.fault?.code).toBe('host.disk_full')
    state.isBroken = false
    await passed(5_000)
    expect(membership.isMember).toBe(true)
    expect(membership.fault).toBeNull()
    expect(told).toEqual(['host.disk_full in', 'in'])
    const { length } = calls
    await passed(60_000)
    expect(calls.length).toBe(length)
  })

  it('a removal - is repeated until it succeeds', async () => {
    const { membership, told, state, passed } = await brokenDiscovery()
    state.isBroken = true
    await membership.setAbsent('engine-away', true)
    await passed(20_000)
    expect(membership.isMember).toBe(true)
    state.isBroken = false
    await passed(5_000)
    expect(membership.isOut).toBe(true)
    expect(told).toEqual(['host.disk_full out', 'out'])
  })

  it('a removal that has failed and is not wanted any more - the entry, which is not renewed, is replaced', async () => {
    const { membership, calls, state, passed } = await brokenDiscovery()
    state.isBroken = true
    await membership.setAbsent('engine-away', true)
    await membership.setAbsent('engine-away', false)
    state.isBroken = false
    calls.length = 0
    await passed(5_000)
    expect(calls).toEqual(['unregister', 'register'])
    expect(membership.isMember).toBe(true)
  })

  it('a state that changes again and again - only the newest one is told, by one attempt at a time', async () => {
    const { membership, calls, told, state, passed } = await brokenDiscovery()
    await membership.setAbsent('engine-away', true)
    state.isBroken = true
    calls.length = 0
    for (let n = 0; n <= 1_000; n++) void membership.setAbsent('engine-away', n % 2 === 1)
    await passed(1)
    expect(calls).toEqual(['register'])
    void membership.setAbsent('engine-away', true)
    state.isBroken = false
    await passed(60_000)
    expect(calls).toEqual(['register'])
    expect(membership.isOut).toBe(true)
    expect(told).toEqual(['host.disk_full in'])
  })

  it('the end of the worker - ends the attempts and leaves no timer', async () => {
    const { membership, clock, calls, state } = await brokenDiscovery()
    state.isBroken = true
    membership.close()
    expect(await membership.leave()).toMatchObject({ code: 'host.disk_full' })
    expect(clock.nextMs).not.toBeNull()
    membership.end()
    expect(clock.nextMs).toBeNull()
    expect(calls).toEqual(['register', 'unregister'])
  })
})
