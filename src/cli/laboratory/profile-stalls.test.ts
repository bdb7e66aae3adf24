import { describe, expect, it } from 'vitest'
import { medianOf } from '../../base/index.ts'
import { pointOf, shareOfStep, stepTimes } from './profile-stalls.ts'
import type { TokenEvent } from './profile-stalls.ts'

/** Events of which each comes `gap(k)` ms after the one before. */
function eventsOf(
  count: number,
  gap: (k: number) => number,
  tokensOf: (k: number) => number = () => 1,
): TokenEvent[] {
  const events = [{ atMs: 100, tokens: 1 }]
  for (let k = 1; k < count; k++)
    events.push({ atMs: events[k - 1]!.atMs + gap(k), tokens: tokensOf(k) })
  return events
}

describe('stepTimes', () => {
  it('tokens that arrive in pairs - a step takes half of the time between two pairs', () => {
    const events = eventsOf(41, (k) => (k % 2 === 0 ? 10 : 0))
    expect(medianOf(stepTimes(events))).toBe(5)
    // A single gap would be 10 or 0.
    const gaps = events.slice(1).map(({ atMs }, i) => atMs - events[i]!.atMs)
    expect(new Set(gaps)).toEqual(new Set([0, 10]))
  })

  it('events of several tokens - a step is the time of one token', () => {
    const pairs = eventsOf(
      25,
      () => 5,
      () => 2,
    )
    expect(new Set(stepTimes(pairs))).toEqual(new Set([2.5]))
    const mixed = eventsOf(
      40,
      (k) => 3 * (1 + (k % 3)),
      (k) => 1 + (k % 3),
    )
    expect(new Set(stepTimes(mixed))).toEqual(new Set([3]))
  })

  it('a delay caused by other load on the machine - does not count', () => {
    const events = eventsOf(49, (k) => (k >= 20 && k < 30 ? 80 : 5))
    expect(medianOf(stepTimes(events))).toBe(5)
  })

  it('every gap counts once, also those of an incomplete group', () => {
    for (let tokens = 0; tokens <= 40; tokens++) {
      const steps = stepTimes(eventsOf(tokens, () => 3))
      expect(steps.every((ms) => Math.abs(ms - 3) < 1e-9)).toBe(true)
      expect(steps.length).toBe(tokens < 2 ? 0 : Math.max(1, Math.floor((tokens - 1) / 8)))
    }
  })
})

describe('pointOf', () => {
  it('a stream whose tokens arrive in pairs - its delay is the time of the prompt and no more', () => {
    // Steps of 2 ms, two tokens per event; a prompt delays the stream by 40 ms.
    const events = eventsOf(
      40,
      (k) => (k === 21 ? 42 : 4),
      (k) => (k === 21 ? 1 : 2),
    )
    const sentMs = events[20]!.atMs - 1
    const point = pointOf(events, { tokens: 64, plain: 2, sentMs, firstMs: events[21]!.atMs })
    expect(point?.ms).toBeCloseTo(40, 9)
    expect(point?.pieces).toBe(1)
  })
})

describe('pointOf - an engine with steps far below a millisecond', () => {
  it("the stream's token is read after the first token of the prompt - its delay still counts", () => {
    const events = eventsOf(60, (k) => (k === 21 ? 40.2 : 0.2))
    const sentMs = events[20]!.atMs - 0.1
    const firstMs = events[21]!.atMs - 0.8
    const point = pointOf(events, { tokens: 512, plain: 0.2, sentMs, firstMs })
    expect(point?.ms).toBeCloseTo(40, 9)
    expect(point?.pieces).toBe(1)
  })
})

describe('shareOfStep', () => {
  it.each([3, 5, 7, 11, 20])(
    '%d prompts - wait half a step on average, from any phase',
    (count) => {
      for (const phase of [0, 0.2, 0.4, 0.6, 0.8]) {
        const waits = Array.from({ length: count }, (_, n) => 1 - ((shareOfStep(n) + phase) % 1))
        expect(Math.abs(medianOf(waits) - 0.5)).toBeLessThan(0.75 / count + 0.05)
      }
    },
  )
})
