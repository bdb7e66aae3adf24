import { describe, expect, it } from 'vitest'
import { BiasedTokens } from './biased-tokens.ts'
import { SimTokens } from './sim-tokens.ts'

const tokens = new SimTokens(1, [100, 110])
const said = (biases: Record<number, number>, count = 2000) => {
  const biased = new BiasedTokens(tokens, biases)
  return Array.from({ length: count }, (_, index) => biased.tokenAt(42, index))
}

describe('logit_bias of the simulated engine', () => {
  it("100 - only that token, even one outside the engine's range; several share", () => {
    expect(new Set(said({ 7: 100 }))).toEqual(new Set([7]))
    expect(new Set(said({ 7: 100, 8: 100 }))).toEqual(new Set([7, 8]))
  })

  it('-100 - never that token; if all are banned one is generated anyway', () => {
    expect(new Set(said({ 103: -100, 104: -100 }))).toEqual(
      new Set([100, 101, 102, 105, 106, 107, 108, 109]),
    )
    const all = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [100 + i, -100]))
    expect(new Set(said(all)).size).toBe(1)
  })

  it('more biases than a call can have arguments - are obeyed', () => {
    const all = Object.fromEntries(Array.from({ length: 300_000 }, (_, i) => [200 + i, -100]))
    expect(new Set(said({ ...all, 7: 100 }, 20))).toEqual(new Set([7]))
  })

  it('values between - change the probability accordingly; other tokens are unaffected', () => {
    const share = (biases: Record<number, number>, id: number) =>
      said(biases, 20_000).filter((token) => token === id).length / 20_000
    expect(share({ 103: Math.log(10) }, 103)).toBeCloseTo(10 / 19, 1)
    expect(share({ 103: -Math.log(10) }, 103)).toBeLessThan(0.03)
    expect(share({ 103: 0 }, 103)).toBeCloseTo(0.1, 1)
  })

  it('canSay - tells which tokens can be generated', () => {
    const biased = new BiasedTokens(tokens, { 7: 1, 103: -100 })
    expect([7, 100, 103, 9].map((id) => biased.canSay(id))).toEqual([true, true, false, false])
  })
})
