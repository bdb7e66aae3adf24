import { describe, expect, it } from 'vitest'
import { Breaker } from './breaker.ts'

function brokenBreaker(failures: number): { breaker: Breaker; at: (ms: number) => void } {
  let nowMs = 0
  const clock = { nowMs: () => nowMs, epochMs: () => 0, after: () => ({ cancel: () => undefined }) }
  const breaker = new Breaker(clock, { failuresMax: 3, firstPauseMs: 100, pauseMaxMs: 300 })
  for (let i = 0; i < failures; i++) breaker.failed()
  return {
    breaker,
    at: (ms) => {
      nowMs = ms
    },
  }
}

describe('Breaker', () => {
  it.each([
    [2, 'closed', true],
    [3, 'open', false],
    [4, 'open', false],
  ])('%i failures - %s', (failures, state, mayTry) => {
    const { breaker } = brokenBreaker(failures)
    expect(breaker.state).toBe(state)
    expect(breaker.mayTry()).toBe(mayTry)
  })

  it('a success - resets the count of failures', () => {
    const { breaker } = brokenBreaker(2)
    breaker.succeeded()
    breaker.failed()
    expect(breaker.state).toBe('closed')
  })

  it('after the pause - one call is allowed, and its outcome decides', () => {
    const { breaker, at } = brokenBreaker(3)
    at(99)
    expect(breaker.mayTry()).toBe(false)
    at(100)
    expect(breaker.state).toBe('half-open')
    expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false])
    breaker.failed()
    at(299)
    expect(breaker.mayTry()).toBe(false)
    at(300)
    expect(breaker.mayTry()).toBe(true)
    breaker.succeeded()
    expect(breaker.state).toBe('closed')
    expect(breaker.timesOpened).toBe(1)
  })

  it('the pause - doubles up to its limit', () => {
    const { breaker, at } = brokenBreaker(20)
    at(299)
    expect(breaker.state).toBe('open')
    at(300)
    expect(breaker.state).toBe('half-open')
  })

  it('a trial call that ends without an outcome - allows another one', () => {
    const { breaker, at } = brokenBreaker(3)
    at(100)
    expect(breaker.mayTry()).toBe(true)
    breaker.gaveUp()
    expect(breaker.mayTry()).toBe(true)
  })
})
