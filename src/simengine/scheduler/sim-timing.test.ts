import { describe, expect, it } from 'vitest'
import { createSimTiming } from './sim-timing.ts'

const prefill = (tokens: number, prefix = 0) => ({
  requests: 1,
  meanPromptTokens: tokens,
  meanPrefixTokens: prefix,
})

describe('createSimTiming - polynomial', () => {
  it('has the built-in curves', () => {
    const timing = createSimTiming()
    expect(timing.prefillMs(prefill(8192))).toBeCloseTo(169.1369184, 6)
    expect(timing.prefillMs(prefill(100, 100))).toBe(0)
    const decode = { requests: 1, contextTokens: 500, capacityTokens: 1000 }
    expect(timing.decodeMs(decode)).toBeCloseTo(5.74 + 27.005 - 6.435, 9)
    expect(timing.decodeMs({ ...decode, requests: 0 })).toBe(0)
    expect(timing.decodeMs({ ...decode, capacityTokens: 0 })).toBeCloseTo(34.01, 9)
  })

  it('accepts other coefficients, and a decode step takes at least 1 ms', () => {
    const timing = createSimTiming({ kind: 'polynomial', prefill: [1, 2], decode: [0] })
    expect(timing.prefillMs(prefill(10, 4))).toBe(13)
    expect(timing.decodeMs({ requests: 1, contextTokens: 1, capacityTokens: 2 })).toBe(1)
    expect(() => createSimTiming({ kind: 'polynomial', prefill: [NaN] })).toThrow('coefficients')
  })
})

describe('createSimTiming - table', () => {
  const table = {
    kind: 'table',
    prefill: { x: [100, 200], y: [10, 30] },
    decode: {
      rows: [0, 1000],
      columns: [0, 100],
      values: [
        [5, 10],
        [15, 20],
      ],
    },
  } as const

  it('interpolates between the points and extrapolates beyond them', () => {
    const timing = createSimTiming(table)
    expect(timing.prefillMs(prefill(150))).toBe(20)
    expect(timing.prefillMs(prefill(300))).toBe(50)
    expect(timing.prefillMs(prefill(10))).toBe(0)
    // 10 requests of 50 tokens: half way in both directions.
    expect(timing.decodeMs({ requests: 10, contextTokens: 500, capacityTokens: 1 })).toBe(12.5)
  })

  it('refuses axes that do not increase or have the wrong length', () => {
    expect(() => createSimTiming({ ...table, prefill: { x: [2, 1], y: [1, 2] } })).toThrow('rise')
    expect(() => createSimTiming({ ...table, prefill: { x: [1, 2], y: [1] } })).toThrow('value')
  })
})

describe('createSimTiming - linear', () => {
  const timing = createSimTiming({ kind: 'linear', prefill: [2, 0.5, 0.01], decode: [3, 1, 0.1] })

  it('a prompt in pieces costs its attention once, and the fixed time once per piece', () => {
    const whole = timing.prefillMs(prefill(100))
    expect(whole).toBe(2 + 50 + 100)
    const pieces = timing.prefillMs(prefill(60)) + timing.prefillMs(prefill(100, 60))
    expect(pieces).toBeCloseTo(whole + 2, 9)
    expect(timing.prefillMs(prefill(60, 60))).toBe(0)
  })

  it('a piece below the minimum takes as long as the minimum, for each of several prompts', () => {
    const options = { kind: 'linear', prefill: [2, 0.5], decode: [3, 1, 0.1] } as const
    const filled = createSimTiming({ ...options, prefillTokensMin: 64 })
    expect([1, 63, 64, 65].map((n) => filled.prefillMs(prefill(n)))).toEqual([34, 34, 34, 34.5])
    expect(filled.prefillMs(prefill(70, 60))).toBe(34)
    expect(filled.prefillMs({ requests: 3, meanPromptTokens: 10, meanPrefixTokens: 0 })).toBe(98)
    expect(filled.prefillMs(prefill(60, 60))).toBe(0)
    // The 64 computed tokens read the 100 cached ones.
    const reading = createSimTiming({ ...options, prefill: [2, 0.5, 0.001], prefillTokensMin: 64 })
    expect(reading.prefillMs(prefill(110, 100))).toBeCloseTo(34 + (164 ** 2 - 100 ** 2) / 1000, 9)
    expect(reading.prefillMs(prefill(200, 100))).toBeCloseTo(52 + (200 ** 2 - 100 ** 2) / 1000, 9)
    for (const prefillTokensMin of [-1, NaN, Infinity])
      expect(() => createSimTiming({ ...options, prefillTokensMin })).toThrow('prefillTokensMin')
  })

  it('cached tokens cost their copy, once', () => {
    const options = { kind: 'linear', prefill: [2, 0.5], decode: [3, 1, 0.1] } as const
    const copied = createSimTiming({ ...options, foundTokenMs: 0.04 })
    expect(copied.prefillMs({ ...prefill(110, 100), foundTokens: 100 })).toBeCloseTo(11, 9)
    expect(copied.prefillMs(prefill(120, 110))).toBe(7)
    for (const foundTokenMs of [-1, NaN])
      expect(() => createSimTiming({ ...options, foundTokenMs })).toThrow('foundTokenMs')
  })

  it('a decode step, and refused coefficients', () => {
    expect(timing.decodeMs({ requests: 2, contextTokens: 50, capacityTokens: 1 })).toBe(10)
    const steps = createSimTiming({
      kind: 'linear',
      prefill: [1],
      decode: [0, 0, 0.1],
      decodeSteps: { x: [1, 2, 4], y: [1, 5, 6] },
    })
    const stepOf = (requests: number): number =>
      steps.decodeMs({ requests, contextTokens: 10, capacityTokens: 1 })
    expect([1, 2, 3, 4, 6].map(stepOf)).toEqual([2, 6, 6.5, 7, 8])
    const wrong = { kind: 'linear', prefill: [1, 2, 3, 4], decode: [1, 2, 3] } as const
    expect(() => createSimTiming(wrong)).toThrow('three at most')
  })
})
