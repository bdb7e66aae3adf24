import { describe, expect, it } from 'vitest'
import { medianOf, stepTimes } from './profile-stalls.ts'

/** Tokens that come `gap(k)` ms behind the one before. */
function timesOf(tokens: number, gap: (k: number) => number): number[] {
  const times = [100]
  for (let k = 1; k < tokens; k++) times.push(times[k - 1]! + gap(k))
  return times
}

describe('stepTimes', () => {
  it('tokens that come in pairs - a step takes half of what lies between two pairs', () => {
    const times = timesOf(41, (k) => (k % 2 === 0 ? 10 : 0))
    expect(medianOf(stepTimes(times))).toBe(5)
    // A single gap says 10 or nothing.
    const gaps = times.slice(1).map((atMs, i) => atMs - times[i]!)
    expect(new Set(gaps)).toEqual(new Set([0, 10]))
  })

  it('a busy moment of the machine - does not count', () => {
    const times = timesOf(49, (k) => (k >= 20 && k < 30 ? 80 : 5))
    expect(medianOf(stepTimes(times))).toBe(5)
  })

  it('every gap counts once, also of a stretch that is not whole', () => {
    for (let tokens = 0; tokens <= 40; tokens++) {
      const steps = stepTimes(timesOf(tokens, () => 3))
      expect(steps.every((ms) => Math.abs(ms - 3) < 1e-9)).toBe(true)
      expect(steps.length).toBe(tokens < 2 ? 0 : Math.max(1, Math.floor((tokens - 1) / 8)))
    }
  })
})
