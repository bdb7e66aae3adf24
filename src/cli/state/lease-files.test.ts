import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { LeaseFiles } from './lease-files.ts'

const path = mkdtempSync(join(tmpdir(), 'baton-leases-'))
afterAll(() => rmSync(path, { recursive: true }))

const FILE = join(path, 'x.lease')
const leaseOf = (pid: number, place = 'here') =>
  writeFileSync(FILE, JSON.stringify({ place, pid, instance: 'another' }))

/** A process with this pid, which is alive. */
function processOf(pid = process.pid, instance = 'one', place = 'here') {
  let nowMs = 0
  const leases = new LeaseFiles(path, { place, pid, instance }, () => nowMs)
  return { leases, take: () => leases.take('x'), wait: (ms: number) => (nowMs += ms) }
}

/** As a holder does that has this clock. */
function renew(epochMs: number): void {
  utimesSync(FILE, epochMs / 1000, epochMs / 1000)
}

describe('a lease', () => {
  it('belongs to one process until it releases it', async () => {
    const one = processOf()
    const two = processOf(process.ppid, 'two')
    expect([await one.take(), await one.take(), await two.take()]).toEqual([true, true, false])
    await two.leases.release('x')
    expect(existsSync(FILE)).toBe(true)
    await one.leases.release('x')
    expect(await two.take()).toBe(true)
    await two.leases.release('x')
  })

  it('of a dead process of this machine - is taken at once', async () => {
    const { leases, take } = processOf()
    leaseOf(process.ppid)
    expect(await take()).toBe(false)
    // Another container of a pod: its process ids say nothing here.
    for (const pid of [2 ** 30, process.pid]) {
      leaseOf(pid, 'there')
      expect(await take()).toBe(false)
    }
    // Process ids are far below this number.
    leaseOf(2 ** 30)
    expect(await take()).toBe(true)
    // An earlier process with this pid. The first call says that the own lease is lost.
    leaseOf(process.pid)
    expect([await take(), await take()]).toEqual([false, true])
    await leases.release('x')
  })

  it('that is renewed - is kept, whatever the wall clocks of the machines say', async () => {
    const { take, wait } = processOf()
    leaseOf(1, 'another machine')
    for (const epochMs of [0, Date.now() - 3_600_000, Date.now() + 3_600_000, Date.now()]) {
      renew(epochMs)
      wait(30_000)
      expect(await take()).toBe(false)
    }
  })

  it('that was not renewed for 30 s - is taken, and its holder is told when it asks', async () => {
    const one = processOf()
    const two = processOf(process.ppid, 'two')
    await one.take()
    for (const [ms, isTaken] of [
      [0, false],
      [30_000, false],
      [1, true],
    ] as const) {
      two.wait(ms)
      expect(await two.take()).toBe(isTaken)
    }
    expect(await one.leases.renew('x')).toBe(false)
    expect(await two.leases.renew('x')).toBe(true)
    await two.leases.release('x')
    // That it is free now does not give it back: what it was for may be done.
    expect(await one.leases.renew('x')).toBe(false)
    await two.leases.release('x')
  })

  it('that another process has taken over - stays its, when the earlier holder ends', async () => {
    const one = processOf()
    const two = processOf(process.ppid, 'two')
    await one.take()
    await two.take()
    two.wait(30_001)
    expect(await two.take()).toBe(true)
    await one.leases.release('x')
    expect([await one.take(), await two.take()]).toEqual([false, true])
    await two.leases.release('x')
  })

  it('that is abandoned - is taken by one of many', async () => {
    for (let round = 0; round < 50; round++) {
      leaseOf(1, `round ${round}`)
      const all = Array.from({ length: 8 }, (_, i) => processOf(1, `p${round}-${i}`, `place ${i}`))
      await Promise.all(all.map(async ({ take }) => await take()))
      for (const { wait } of all) wait(30_001)
      await Promise.all(all.map(async ({ take }) => await take()))
      // Renewals: who was displaced by another knows it now.
      const held = await Promise.all(all.map(async ({ take }) => await take()))
      expect(held.filter(Boolean)).toHaveLength(1)
      for (const { leases } of all) await leases.release('x')
    }
  })
})
