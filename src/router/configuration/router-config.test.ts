import { describe, expect, it } from 'vitest'

import { mergeBusyThresholds } from './busy-threshold.ts'
import { completeRouterConfig } from './router-config.ts'
import type { RouterOptions } from './router-config.ts'

describe('completeRouterConfig', () => {
  it("defaults - equal Dynamo's except for two weights", () => {
    expect(completeRouterConfig()).toMatchObject({
      mode: 'kv',
      overlapScoreCredit: 1,
      overlapScoreCreditDecay: 0,
      prefillLoadScale: 16,
      decodeActiveRequestWeight: 128,
      hostCacheHitWeight: 0.75,
      diskCacheHitWeight: 0.25,
      temperature: 0,
      queueThreshold: null,
    })
  })

  it.each([
    [{ mode: 'fastest' }, 'mode'],
    [{ temperature: -1 }, 'temperature'],
    [{ overlapScoreCredit: NaN }, 'overlapScoreCredit'],
    [{ blockSize: 0 }, 'blockSize'],
    [{ trackOutputBlocks: true, trackActiveBlocks: false }, 'trackOutputBlocks'],
    [{ enforceDisaggregation: true, disaggregation: false }, 'enforceDisaggregation'],
    [{ prefillTokensPerSecond: 0 }, 'prefillTokensPerSecond'],
    [{ deadlines: { prefillMs: -1 } }, 'deadlines.prefillMs'],
    [{ conditional: { policy: 'guess' } }, 'conditional.policy'],
    [{ policyClasses: [{ name: 'a' }, { name: 'a' }] }, 'policyClasses'],
  ])('%j - is refused and the option named', (options, option) => {
    const complete = () => completeRouterConfig(options as RouterOptions)
    expect(complete).toThrow(
      expect.objectContaining({
        code: 'config.invalid',
        data: expect.objectContaining({ option }),
      }),
    )
  })

  it('busy thresholds - a partial update keeps the others, an invalid one changes nothing', () => {
    const before = mergeBusyThresholds({}, { activeDecodeBlocks: 0.8, activePrefillTokens: 100 })
    expect(mergeBusyThresholds(before, { activePrefillTokens: 5 })).toEqual({
      activeDecodeBlocks: 0.8,
      activePrefillTokens: 5,
    })
    expect(() => mergeBusyThresholds(before, { activeDecodeBlocks: 2 })).toThrow(
      /activeDecodeBlocks/,
    )
  })
})
