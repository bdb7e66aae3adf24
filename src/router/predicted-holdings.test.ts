import { describe, expect, it } from 'vitest'

import { hashBlocks } from '../kv/index.ts'
import { PredictedHoldings } from './predicted-holdings.ts'

const hashes = (...tokens: number[]): Uint32Array =>
  hashBlocks(Uint32Array.from(tokens), 1).sequence

describe('PredictedHoldings', () => {
  const depth = (holdings: PredictedHoldings, prompt: Uint32Array, nowMs: number): number[] => {
    const out = new Int32Array(2)
    holdings.find(prompt, out, nowMs)
    return [...out]
  }

  it('shared prefix - stays until the last prediction that has it is over', () => {
    const holdings = new PredictedHoldings({ ttlMs: 10, maxBlocks: 100 })
    holdings.add(0, hashes(1, 2, 3), 0)
    holdings.add(0, hashes(1, 2, 4), 5)
    expect(depth(holdings, hashes(1, 2, 3), 9)).toEqual([3, 0])
    expect(depth(holdings, hashes(1, 2, 3), 12)).toEqual([2, 0])
    expect(depth(holdings, hashes(1, 2, 3), 15)).toEqual([0, 0])
    expect(holdings.blocks).toBe(0)
  })

  it('bound - the oldest go first', () => {
    const holdings = new PredictedHoldings({ ttlMs: 1000, maxBlocks: 4 })
    holdings.add(0, hashes(1, 2), 0)
    holdings.add(0, hashes(3, 4), 1)
    holdings.add(1, hashes(5, 6), 2)
    expect(depth(holdings, hashes(1, 2), 3)).toEqual([0, 0])
    expect(depth(holdings, hashes(5, 6), 3)).toEqual([0, 2])
    expect(holdings.blocks).toBe(4)
  })

  it('worker gone - its predictions go, others stay', () => {
    const holdings = new PredictedHoldings({ ttlMs: 1000, maxBlocks: 100 })
    holdings.add(0, hashes(1, 2), 0)
    holdings.add(1, hashes(1, 2), 0)
    holdings.removeSlot(0)
    expect(depth(holdings, hashes(1, 2), 1)).toEqual([0, 2])
  })

  it('many short lives - the list does not grow', () => {
    const holdings = new PredictedHoldings({ ttlMs: 10, maxBlocks: 1e6 })
    for (let i = 0; i < 5000; i++) holdings.add(0, hashes(i, i + 1), i)
    expect(holdings.blocks).toBeLessThanOrEqual(22)
  })
})
