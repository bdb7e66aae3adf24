import { describe, expect, it } from 'vitest'

import { completeConditionalConfig, judgeBypass } from './conditional-policy.ts'
import type { ConditionalFacts, ConditionalOptions } from './conditional-policy.ts'
import { completeRouterConfig } from './router-config.ts'

const IDLE = { effectiveTokens: 4000, activePrefillTokens: 0, maxBatchedTokens: 8192 }
const FACTS: ConditionalFacts = {
  promptTokens: 4000,
  decodeEffectiveTokens: 4000,
  decodeActivePrefillTokens: 0,
  decodeActiveRequests: 0,
  decodeProjectedBlocks: 250,
  decodeTotalBlocks: 1000,
  prefill: { ...IDLE, queueRejected: false },
}

function bypasses(options: ConditionalOptions, facts: Partial<ConditionalFacts>): boolean {
  const config = completeConditionalConfig({ enabled: true, ...options })
  const { bypass, reason } = judgeBypass(config, { ...FACTS, ...facts })
  expect(reason).not.toBe('')
  return bypass
}

const prefill = (change: Partial<NonNullable<ConditionalFacts['prefill']>>) => ({
  prefill: { ...IDLE, queueRejected: false, ...change },
})

describe('conditional disaggregation', () => {
  it.each([
    ['short and mostly cached', 2047, true],
    ['at the length', 2048, false],
  ])('isl_bounding, length - %s', (_, decodeEffectiveTokens, expected) => {
    expect(bypasses({}, { decodeEffectiveTokens })).toBe(expected)
  })

  it.each([
    ['below the share', 699, true],
    ['at the share', 700, false],
    ['nothing cached', 1000, false],
  ])('isl_bounding, ratio - %s', (_, decodeEffectiveTokens, expected) => {
    expect(bypasses({}, { promptTokens: 1000, decodeEffectiveTokens })).toBe(expected)
  })

  it('prefill_load - bypass above its share of the batch or with a refusing queue; unknown counts as not busy', () => {
    const options = { policy: 'prefill_load', prefillBusyThreshold: 0.5 } as const
    expect(bypasses(options, prefill({ activePrefillTokens: 4096 }))).toBe(false)
    expect(bypasses(options, prefill({ activePrefillTokens: 4097 }))).toBe(true)
    expect(bypasses(options, prefill({ queueRejected: true }))).toBe(true)
    expect(bypasses(options, { prefill: null })).toBe(false)
    const none = { policy: 'prefill_load' } as const
    expect(bypasses(none, prefill({ activePrefillTokens: 1e9 }))).toBe(false)
  })

  it('isl_or_load - bypass if either policy says so', () => {
    const options = { policy: 'isl_or_load', prefillBusyThreshold: 0.5 } as const
    expect(bypasses(options, { decodeEffectiveTokens: 100 })).toBe(true)
    expect(bypasses(options, prefill({ activePrefillTokens: 5000 }))).toBe(true)
    expect(bypasses(options, {})).toBe(false)
  })

  it('predicted_cost - compares tokens before the first output token on both paths, including the transfer', () => {
    const options = {
      policy: 'predicted_cost',
      transferTokensFixed: 100,
      transferTokensPerToken: 0.1,
      interference: 0.01,
    } as const
    // Here 4,000, there 4,000 + 100 + 400.
    expect(bypasses(options, {})).toBe(true)
    expect(bypasses(options, { decodeActivePrefillTokens: 499 })).toBe(true)
    expect(bypasses(options, { decodeActivePrefillTokens: 500 })).toBe(false)
    // Each running request makes a local prefill 1 % more expensive.
    expect(bypasses(options, { decodeActiveRequests: 13 })).toBe(false)
    expect(bypasses(options, prefill({ effectiveTokens: 0 }))).toBe(false)
    expect(bypasses(options, prefill({ queueRejected: true }))).toBe(true)
    expect(bypasses(options, { prefill: null })).toBe(false)
  })

  it('decode guard - no bypass to a full decode worker, or to one with unknown load', () => {
    const options = { decodeBusyThreshold: 0.5 }
    const short = { decodeEffectiveTokens: 100 }
    expect(bypasses(options, { ...short, decodeProjectedBlocks: 500 })).toBe(true)
    expect(bypasses(options, { ...short, decodeProjectedBlocks: 501 })).toBe(false)
    expect(bypasses(options, { ...short, decodeTotalBlocks: null })).toBe(false)
  })

  it('prefill threshold - defaults to the queue threshold of the router', () => {
    const threshold = (prefillBusyThreshold?: number | null) =>
      completeRouterConfig({
        queueThreshold: 3,
        conditional: prefillBusyThreshold === undefined ? {} : { prefillBusyThreshold },
      }).conditional.prefillBusyThreshold
    expect([threshold(), threshold(null), threshold(0.5)]).toEqual([3, 3, 0.5])
  })
})
