/** The fit recovers the measured values, with and without noise. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSimTiming } from '../../simengine/index.ts'
import { fitOverhead, fitTiming } from './fit-timing.ts'

const TOKENS = [16, 64, 256, 1024, 4096]
const BATCHES = [1, 2, 4, 8].flatMap((requests) =>
  [100, 800].map((context) => ({ requests, contextTokens: requests * context })),
)

describe('fitTiming', () => {
  it('finds the coefficients of an engine that has them', () => {
    const coefficient = fc.double({ min: 0.01, max: 20, noNaN: true })
    fc.assert(
      fc.property(coefficient, coefficient, coefficient, (base, slope, step) => {
        const timing = createSimTiming({
          kind: 'linear',
          prefill: [base, slope / 100, slope / 1e6],
          decode: [step, 0, slope / 1e4],
          decodeSteps: { x: [1, 2, 4, 8], y: [step, 3 * step, 3.1 * step, 7 * step] },
        })
        const prefill = TOKENS.map((tokens) => ({
          tokens,
          ms: timing.prefillMs({ requests: 1, meanPromptTokens: tokens, meanPrefixTokens: 0 }),
        }))
        const decode = BATCHES.map((batch) => ({
          ...batch,
          ms: timing.decodeMs({ ...batch, capacityTokens: 1 }),
        }))
        const fitted = fitTiming(prefill, decode)
        expect(fitted.prefillError[1]).toBeLessThan(1e-6)
        expect(fitted.decodeError[1]).toBeLessThan(1e-6)
      }),
    )
  })

  it('noise, and an engine that seems to get faster with more work - no coefficient below 0, the error is reported', () => {
    const falling = TOKENS.map((tokens, i) => ({ tokens, ms: 10 - i }))
    const { timing, prefillError } = fitTiming(falling, [{ requests: 1, contextTokens: 9, ms: 5 }])
    expect([...timing.prefill, ...timing.decode].every((value) => value >= 0)).toBe(true)
    expect(prefillError[0]).toBeGreaterThan(0)
    expect(prefillError[1]).toBeGreaterThanOrEqual(prefillError[0])
  })

  it('an engine that pads short chunks - prompts up to that length take the same time', () => {
    const timing = createSimTiming({
      kind: 'linear',
      prefill: [5, 1.5, 0.0001],
      prefillTokensMin: 64,
      decode: [5, 0, 0],
    })
    const measured = [16, 32, 64, 128, 256, 512, 1024].map((tokens, i) => ({
      tokens,
      ms:
        timing.prefillMs({ requests: 1, meanPromptTokens: tokens, meanPrefixTokens: 0 }) *
        (i % 2 === 0 ? 1.03 : 0.97),
    }))
    const decode = [{ requests: 1, contextTokens: 9, ms: 5 }]
    const fitted = fitTiming(measured, decode)
    expect(fitted.timing.prefillTokensMin).toBe(64)
    expect(fitted.prefillError[1]).toBeLessThan(0.05)
    // An engine without padding is not reported as one, with or without noise.
    const plain = measured.map(({ tokens }, i) => ({
      tokens,
      ms: (40 + 0.3 * tokens) * (i % 2 === 0 ? 1.03 : 0.97),
    }))
    expect(fitTiming(plain, decode).timing.prefillTokensMin).toBeUndefined()
  })

  it('prompts in chunks - each chunk has the constant part', () => {
    const prefill = TOKENS.map((tokens) => {
      const pieces = Math.ceil(tokens / 512)
      return { tokens, pieces, ms: 4 * pieces + 0.2 * tokens, ttftMs: 500 + tokens }
    })
    const [step, perToken, perPair] = fitTiming(prefill, [{ requests: 1, contextTokens: 9, ms: 5 }])
      .timing.prefill
    expect(step).toBeCloseTo(4, 6)
    expect(perToken).toBeCloseTo(0.2, 6)
    expect(perPair).toBeCloseTo(0, 6)
  })

  it('overhead - per request and per token, never below 0', () => {
    const points = TOKENS.map((tokens) => ({
      tokens,
      overheadMs: 3 + 0.002 * tokens,
    }))
    const { requestMs, msPerToken } = fitOverhead(points)
    expect(requestMs).toBeCloseTo(3, 6)
    expect(msPerToken).toBeCloseTo(0.002, 9)
    // One value was measured while the machine was busy.
    const noisy = points.map((point, i) => (i === 1 ? { ...point, overheadMs: 90 } : point))
    expect(fitOverhead(noisy).requestMs).toBeLessThan(4)
    const none = fitOverhead(points.map((point) => ({ ...point, overheadMs: 0 })))
    expect(none).toEqual({ requestMs: 0, msPerToken: 0 })
  })
})
