import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../base/index.ts'
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
  const membership = new Membership(async () => {
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
  }, CARD)
  const letThrough = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) {
      held.shift()?.()
      await Promise.resolve()
    }
  }
  return { membership, entries, letThrough }
}

describe('Membership', () => {
  it('two concurrent joins - make one entry, and leaving removes it', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = [membership.join(), membership.join()]
    await letThrough()
    await Promise.all(joined)
    expect(entries.size).toBe(1)
    await membership.leave()
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('leaving during a join - waits for the entry and removes it', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.join()
    expect(membership.isMember).toBe(false)
    expect(membership.isOut).toBe(false)
    const left = membership.leave()
    await letThrough()
    await Promise.all([joined, left])
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('after close - does not join any more, but leaves', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.join()
    await letThrough()
    await joined
    membership.close()
    await membership.leave()
    await expect(membership.join()).rejects.toMatchObject({ code: 'request.conflict' })
    expect(entries.size).toBe(0)
    expect(membership.isOut).toBe(true)
  })

  it('an entry that cannot be created - leaves nothing behind, and a retry may succeed', async () => {
    let fails = true
    const membership = new Membership(
      () =>
        fails
          ? Promise.reject(new Error('no folder'))
          : Promise.resolve({ update: () => Promise.resolve(), close: () => Promise.resolve() }),
      CARD,
    )
    await expect(membership.join()).rejects.toThrow('no folder')
    expect(membership.isOut).toBe(true)
    fails = false
    await membership.join()
    expect(membership.isMember).toBe(true)
  })

  it('several reasons to be absent - it rejoins when the last of them has ended', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    const joined = membership.join()
    await letThrough()
    await joined
    await membership.leave('drained')
    await membership.leave('engine-away')
    await membership.join('drained')
    expect(entries.size).toBe(0)
    const back = membership.join('engine-away')
    await letThrough()
    await back
    expect(entries.size).toBe(1)
  })

  it('absent before it has joined - it joins when the reason has ended', async () => {
    const { membership, entries, letThrough } = slowDiscovery()
    await membership.leave('engine-away')
    await membership.join()
    expect(membership.isOut).toBe(true)
    const back = membership.join('engine-away')
    await letThrough()
    await back
    expect(entries.size).toBe(1)
  })
})
