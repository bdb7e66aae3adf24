import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../test/router/manual-clock.ts'
import { withDeadline } from './deadline.ts'

function pending(): {
  work: Promise<string>
  done: (value: string) => void
  fail: (error: unknown) => void
} {
  let done: (value: string) => void = () => undefined
  let fail: (error: unknown) => void = () => undefined
  const work = new Promise<string>((resolve, reject) => {
    done = resolve
    fail = reject
  })
  return { work, done, fail }
}

describe('withDeadline', () => {
  it('work in time - returns the value and leaves no timer', async () => {
    const clock = new ManualClock()
    const { work, done } = pending()
    const outcome = withDeadline(clock, 10, work)
    done('a')
    expect(await outcome).toEqual({ kind: 'done', value: 'a' })
    expect(clock.timerCount).toBe(0)
  })

  it.each([new Error('x'), 'x', Object.create(null)])(
    'work that is rejected with any value - rejects (%#)',
    async (thrown) => {
      const { work, fail } = pending()
      const outcome = withDeadline(new ManualClock(), 10, work)
      fail(thrown)
      await expect(outcome).rejects.toThrow(Error)
    },
  )

  it('late work - times out, and its result is ignored', async () => {
    const clock = new ManualClock()
    const { work, fail } = pending()
    const outcome = withDeadline(clock, 10, work)
    clock.advance(10)
    expect(await outcome).toEqual({ kind: 'timed_out' })
    fail(new Error('late'))
    await expect(work).rejects.toThrow('late')
  })

  it.each(['before', 'while'])(
    'aborted %s it waits - cancelled, and no timer is left',
    async (when) => {
      const clock = new ManualClock()
      const leaving = new AbortController()
      if (when === 'before') leaving.abort()
      const outcome = withDeadline(clock, 10, pending().work, leaving.signal)
      leaving.abort()
      expect(await outcome).toEqual({ kind: 'cancelled' })
      expect(clock.timerCount).toBe(0)
    },
  )

  it('failing work - rejects; without a limit no timer is set', async () => {
    const clock = new ManualClock()
    const { work, fail } = pending()
    const outcome = withDeadline(clock, Infinity, work)
    expect(clock.timerCount).toBe(0)
    fail('no error object')
    await expect(outcome).rejects.toThrow('no error object')
  })
})
