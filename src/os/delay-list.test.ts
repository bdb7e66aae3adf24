import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createOsClock } from './os-clock.ts'

const fired: string[] = []
/** Not the clock of this process: its timers may be Node's own, set by another test. */
let clock = createOsClock()
const after = (delayMs: number, name: string) => clock.after(delayMs, () => fired.push(name))

describe('timers of long delays', () => {
  beforeEach(() => {
    fired.length = 0
    clock = createOsClock()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  })

  afterEach(() => {
    vi.runAllTimers()
    vi.useRealTimers()
  })

  it.each([2 ** 31, 2 ** 31 + 0.5, 1e300])(
    '%d ms, more than Node can wait - does not fire at once',
    (delayMs) => {
      const timer = after(delayMs, 'late')
      vi.advanceTimersByTime(1_000_000)
      expect(fired).toEqual([])
      timer.cancel()
    },
  )

  it('one after the other - each fires after its own delay, in their order', () => {
    after(5000, 'first')
    vi.advanceTimersByTime(1000)
    after(5000, 'second')
    after(2000, 'other delay')
    vi.advanceTimersByTime(3999)
    expect(fired).toEqual(['other delay'])
    vi.advanceTimersByTime(1)
    expect(fired).toEqual(['other delay', 'first'])
    vi.advanceTimersByTime(1000)
    expect(fired).toEqual(['other delay', 'first', 'second'])
  })

  it('cancelled, also twice and after it has fired - the others fire, none twice', () => {
    const [first, second, third] = ['first', 'second', 'third'].map((name) => after(5000, name))
    second?.cancel()
    second?.cancel()
    vi.advanceTimersByTime(5000)
    expect(fired).toEqual(['first', 'third'])
    first?.cancel()
    third?.cancel()
    after(5000, 'fourth').cancel()
    after(5000, 'fifth')
    vi.advanceTimersByTime(5000)
    expect(fired).toEqual(['first', 'third', 'fifth'])
  })

  it('set while others fire - fires after its delay, though one of them has thrown', () => {
    clock.after(5000, () => {
      after(5000, 'from within')
      throw new Error('of the one that fires')
    })
    after(5000, 'behind it')
    expect(() => vi.advanceTimersByTime(5000)).toThrow('of the one that fires')
    vi.advanceTimersByTime(1)
    expect(fired).toEqual(['behind it'])
    vi.advanceTimersByTime(5000)
    expect(fired).toEqual(['behind it', 'from within'])
  })

  it('more delays than there are lists - each fires all the same', () => {
    const delays = Array.from({ length: 40 }, (_, at) => 1000 + at)
    for (const delay of delays) after(delay, String(delay))
    vi.advanceTimersByTime(2000)
    expect(fired).toEqual(delays.map(String))
    after(1500, 'a new delay')
    vi.advanceTimersByTime(1500)
    expect(fired.at(-1)).toBe('a new delay')
  })
})

it('a timer of a long delay - keeps the process alive until it is cancelled', () => {
  const ownClock = createOsClock()
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  ownClock.after(60_000, () => undefined).cancel()
  const held = ownClock.after(60_000, () => undefined)
  const alive = () =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length - before
  expect(alive()).toBe(1)
  held.cancel()
  expect(alive()).toBe(0)
})
