import { describe, expect, it } from 'vitest'

import { seededRandom, workerIdOf } from '../../base/index.ts'
import { HALF_LIFE_MS, PAIRS_MAX, TransferRates } from './transfer-rates.ts'

const pairOf = (from: number, to: number) => ({ from: workerIdOf(from), to: workerIdOf(to) })
const PAIR = pairOf(1, 2)
const seen = (tokens: number, elapsedMs: number, spreadMs = 0) => ({ tokens, elapsedMs, spreadMs })

const EQUAL = Array.from({ length: 63 }, (_, i) => i + 1)
const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

function measured(rates = new TransferRates(), count = 40, msPerToken = 0.05) {
  for (let i = 0; i < count; i++) {
    const tokens = 500 * (1 + (i % 8))
    rates.arrived(PAIR, seen(tokens, 30 + msPerToken * tokens), i)
  }
  return rates
}

describe('TransferRates', () => {
  it('nothing measured - the assumed time', () => {
    expect(new TransferRates().predictMs(PAIR, 1000, 123, 0)).toBe(123)
  })

  it('learned - a fixed time and a rate, also for unseen lengths', () => {
    const rates = measured()
    expect(rates.predictMs(PAIR, 10_000, 1, 40)).toBeCloseTo(530, -1)
    expect(rates.predictMs(PAIR, 0, 1, 40)).toBeCloseTo(30, -1)
  })

  it('no transfer for a while - half of the prediction is the assumed time, later nearly all', () => {
    const rates = measured()
    expect(rates.predictMs(PAIR, 10_000, 1, 39 + HALF_LIFE_MS)).toBeCloseTo(265, -1)
    expect(rates.predictMs(PAIR, 10_000, 1, 39 + 20 * HALF_LIFE_MS)).toBeCloseTo(1, 0)
  })

  it('a transfer that hangs - changes the rate by a limited step; a clock that goes back gives no negative time', () => {
    const rates = measured()
    rates.arrived(PAIR, seen(1000, 1e9), 40)
    expect(rates.predictMs(PAIR, 1000, 1, 40)).toBeLessThan(400)
    rates.arrived(PAIR, seen(1000, -5), 41)
    expect(rates.predictMs(PAIR, 1000, 1, 41)).toBeGreaterThanOrEqual(0)
    const later = measured(rates, 100).predictMs(PAIR, 1000, 1, 99)
    expect(later).toBeGreaterThan(70)
    expect(later).toBeLessThan(90)
  })
})

describe('TransferRates: pairs', () => {
  const SLOW = pairOf(1, 3)

  /** Two pairs, one of which takes ten times as long. */
  function twoPairs() {
    const rates = new TransferRates()
    for (let i = 0; i < 80; i++) {
      const tokens = 500 * (1 + (i % 7))
      const isSlow = i % 2 === 0
      rates.arrived(isSlow ? SLOW : PAIR, seen(tokens, (isSlow ? 0.5 : 0.05) * tokens), i)
    }
    return rates
  }

  it('best receiver of a worker - among those with capacity or without measurements', () => {
    const rates = twoPairs()
    const bestOf = (places: number, hasRoom: (id: string) => boolean, atMs: number) =>
      rates.best(places, hasRoom, atMs)?.factorTo(workerIdOf(1)) ?? Number.NaN
    expect(new TransferRates().best(2, () => true, 0)).toBeNull()
    expect(bestOf(2, () => true, 100)).toBeLessThan(0.6)
    // Kept for a moment: a decision asks for it of every worker.
    expect(bestOf(2, (id) => id === '3', 101)).toBeLessThan(0.6)
    expect(bestOf(2, (id) => id === '3', 1000)).toBeGreaterThan(1.4)
    // An unknown third receiver counts as average; if none has capacity now, one will later.
    expect(bestOf(3, (id) => id === '3', 2000)).toBe(1)
    expect(bestOf(2, () => false, 3000)).toBe(1)
    expect(rates.best(2, () => true, 4000)?.factorTo(workerIdOf(9))).toBe(1)
  })

  it('each pair has its own rate; an unknown pair is in between', () => {
    const rates = twoPairs()
    const of = (pair: typeof PAIR) => rates.predictMs(pair, 2000, 1, 80)
    expect(of(SLOW)).toBeGreaterThan(700)
    expect(of(SLOW)).toBeLessThan(1300)
    expect(of(PAIR)).toBeGreaterThan(70)
    expect(of(PAIR)).toBeLessThan(130)
    expect(of(pairOf(4, 5))).toBeGreaterThan(of(PAIR))
    expect(of(pairOf(4, 5))).toBeLessThan(of(SLOW))
    // The way back is another pair.
    expect(of(pairOf(3, 1))).toBe(of(pairOf(4, 5)))
  })

  it('waits for a step of up to 20 ms that differ by chance - equal pairs stay equal, a slow one is still found', () => {
    const random = seededRandom(1)
    const rates = new TransferRates()
    const spreads: number[] = []
    for (let i = 0; i < 400; i++) {
      const to = 1 + (i % 64)
      const tokens = 500 * (1 + (i % 7))
      const moveMs = (to === 64 ? 0.05 : 0.01) * tokens
      rates.arrived(pairOf(0, to), seen(tokens, moveMs + 20 * random.next(), 6), i)
      if (i < 64) continue
      const line = rates.from(workerIdOf(0), i)
      const logs = EQUAL.map((id) => Math.log(line?.factorTo(workerIdOf(id)) ?? 0))
      const middle = meanOf(logs)
      spreads.push(meanOf(logs.map((log) => Math.abs(log - middle))))
    }
    expect(meanOf(spreads)).toBeLessThan(0.06)
    const line = rates.from(workerIdOf(0), 400)
    expect(line?.factorTo(workerIdOf(64))).toBeGreaterThan(1.3)
  })

  it('a pair that is no longer used - becomes average, and is tried again', () => {
    const rates = twoPairs()
    for (let i = 0; i < 40; i++) rates.arrived(PAIR, seen(2000, 100), 80 + i * HALF_LIFE_MS)
    expect(rates.predictMs(SLOW, 2000, 1, 80 + 40 * HALF_LIFE_MS)).toBeLessThan(150)
  })

  it.each([
    [PAIRS_MAX - 1, true],
    [PAIRS_MAX, false],
  ])('%d other pairs after it - its own rate is still known: %s', (others, isKnown) => {
    const rates = twoPairs()
    rates.arrived(SLOW, seen(2000, 1000), 80)
    for (let i = 0; i < others; i++) rates.arrived(pairOf(10 + i, 9), seen(2000, 300), 81)
    const likeMost = rates.predictMs(pairOf(5, 6), 2000, 1, 81)
    const own = rates.predictMs(SLOW, 2000, 1, 81)
    if (isKnown) expect(own).toBeGreaterThan(1.3 * likeMost)
    else expect(own).toBe(likeMost)
  })
})
