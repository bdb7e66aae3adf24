import { describe, expect, it } from 'vitest'
import { randomInt, seededRandom } from './random.ts'

function draws(seed: number, count = 8): number[] {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () => random.next())
}

describe('seededRandom', () => {
  it('the same seed - the same numbers; another seed - other numbers', () => {
    expect(draws(1)).toEqual(draws(1))
    const firsts = Array.from({ length: 1000 }, (_, seed) => draws(seed, 1)[0])
    expect(new Set(firsts).size).toBe(1000)
  })

  it('two sources with the same seed - are independent', () => {
    const [a, b] = [seededRandom(3), seededRandom(3)]
    a.next()
    a.next()
    expect(b.next()).toBe(draws(3)[0])
  })

  it('the seed - is taken modulo 2^32', () => {
    expect(draws(-1)).toEqual(draws(0xffffffff))
  })

  it('10,000 numbers - are in [0, 1) and spread evenly', () => {
    const counts = Array.from({ length: 10 }, () => 0)
    for (const value of draws(5, 10_000)) {
      expect(value >= 0 && value < 1).toBe(true)
      counts[Math.floor(value * 10)]!++
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150)
  })
})

describe('randomInt', () => {
  it('values - are integers below the bound, and every value is reached', () => {
    const random = seededRandom(9)
    const seen = new Set(Array.from({ length: 200 }, () => randomInt(random, 5)))
    expect([...seen].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4])
    expect(randomInt(random, 1)).toBe(0)
  })

  it('the largest random number - stays below the bound', () => {
    const greatest = { next: () => 0xffffffff / 2 ** 32 }
    expect(randomInt(greatest, 2 ** 31)).toBe(2 ** 31 - 1)
  })
})
