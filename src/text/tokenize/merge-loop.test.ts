import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mergeSymbols } from './merge-loop.ts'
import type { PairRanks } from './merge-loop.ts'

/** Symbols 0–3; a pair becomes a symbol of its own, with ranks that repeat. */
function ranksOf(seed: number): PairRanks {
  const known = new Map<number, number>()
  let next = 4
  return {
    rank(left, right) {
      const mixed =
        (Math.imul(left + 1, 0x9e3779b1) ^ Math.imul(right + 7, 0x85ebca6b) ^ seed) >>> 0
      return mixed % 3 === 0 ? (mixed >>> 8) % 50 : -1
    },
    merged(_rank, left, right) {
      const key = left * 100_003 + right
      if (!known.has(key)) known.set(key, next++)
      return known.get(key)!
    },
  }
}

function naive(symbols: readonly number[], ranks: PairRanks): number[] {
  const chain = [...symbols]
  for (;;) {
    let best = -1
    for (let i = 0; i + 1 < chain.length; i++) {
      const rank = ranks.rank(chain[i]!, chain[i + 1]!)
      if (rank < 0) continue
      if (best < 0 || rank < ranks.rank(chain[best]!, chain[best + 1]!)) best = i
    }
    if (best < 0) return chain
    const [left, right] = [chain[best]!, chain[best + 1]!]
    chain.splice(best, 2, ranks.merged(ranks.rank(left, right), left, right))
  }
}

describe('mergeSymbols', () => {
  it('short and long sequences - same result as the simplest loop', () => {
    const chain = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 150 })
    fc.assert(
      fc.property(chain, fc.integer(), (symbols, seed) => {
        const ranks = ranksOf(seed)
        const expected = naive(symbols, ranks)
        const actual = Int32Array.from(symbols)
        const count = mergeSymbols(actual, actual.length, ranks)
        expect([...actual.subarray(0, count)]).toEqual(expected)
      }),
    )
  })
})
