import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sleep } from '../../base/index.ts'
import { VirtualClock } from './virtual-clock.ts'

describe('VirtualClock', () => {
  it('fires in order of time, then of creation, and never a cancelled timer', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(20), fc.boolean()), { maxLength: 60 }), (timers) => {
        const clock = new VirtualClock()
        const fired: [number, number][] = []
        for (const [i, [delayMs, isCancelled]] of timers.entries()) {
          const timer = clock.after(delayMs, () => fired.push([clock.nowMs(), i]))
          if (isCancelled) timer.cancel()
        }
        while (clock.fireNext());
        const kept = timers.flatMap(([delayMs, isCancelled], i) =>
          isCancelled ? [] : [[delayMs, i]],
        )
        expect(fired).toEqual(kept.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!))
      }),
    )
  })

  it('run - does not advance without timers, and stops at the given time', async () => {
    const clock = new VirtualClock({ epochMs: 1000 })
    let count = 0
    clock.after(10, () => count++)
    clock.after(30, () => count++)
    expect(await clock.run(20)).toBe(1)
    expect([clock.nowMs(), clock.epochMs(), count]).toEqual([20, 1020, 1])
    expect(clock.nextMs).toBe(30)
  })

  it('lets awaiting code continue between timers', async () => {
    const clock = new VirtualClock()
    const seen: number[] = []
    const walk = async (): Promise<string> => {
      for (let i = 0; i < 3; i++) {
        await sleep(clock, 5)
        seen.push(clock.nowMs())
      }
      return 'done'
    }
    clock.after(100, () => seen.push(-1))
    expect(await clock.runUntil(walk())).toBe('done')
    expect(seen).toEqual([5, 10, 15])
  })

  it('reports when the timers end before the promise does', async () => {
    await expect(new VirtualClock().runUntil(new Promise(() => undefined))).rejects.toThrow('ended')
  })
})
