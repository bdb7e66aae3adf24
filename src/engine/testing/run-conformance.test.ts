import { describe, expect, it } from 'vitest'
import { BackwardsEngine } from '../../../examples/engine-in-30-lines.ts'
import { osClock } from '../../host/os-clock.ts'
import { VirtualClock } from '../../sim/index.ts'
import { SimEngine } from '../sim/sim-engine.ts'
import type { SimEngineOptions } from '../sim/sim-options.ts'
import { describeFailures } from './conformance-report.ts'
import { runConformance } from './run-conformance.ts'

describe('runConformance - engines that keep the contract', () => {
  const variants: [string, Partial<SimEngineOptions>][] = [
    ['aggregated', {}],
    ['instantaneous', { speedupRatio: 'instantaneous' }],
    ['small blocks and memory', { blockTokens: 4, blockCount: 2600, contextLength: 10_004 }],
    ['two ranks', { dataParallelSize: 2 }],
    [
      'host and disk behind a small cache',
      {
        blockTokens: 4,
        blockCount: 30,
        contextLength: 100,
        offload: { hostBlocks: 20, diskBlocks: 40 },
      },
    ],
    ['the admission of sglang', { engineType: 'sglang', blockTokens: 4 }],
    ['no cache, no chunks', { prefixCaching: false, chunkedPrefill: false }],
    ['decode', { mode: 'decode' }],
    ['prefill', { mode: 'prefill' }],
  ]
  it.each(variants)('the simulated engine, %s', async (_name, change) => {
    const clock = new VirtualClock({ settle: () => new Promise(setImmediate) })
    const factory = (): SimEngine => new SimEngine({ clock, model: 'sim', ...change })
    const mode = change.mode ?? 'agg'
    const report = await clock.runUntil(runConformance(factory, { clock, mode }))
    expect(describeFailures(report)).toBe('')
    expect(report.passed).toBe(true)
  })

  it('the engine in 30 lines', async () => {
    const report = await runConformance(() => new BackwardsEngine(), { clock: osClock })
    expect(describeFailures(report)).toBe('')
    expect(report.skips.map((skip) => skip.check)).toEqual([
      'logprobs',
      'seed',
      'embeddings',
      'health',
      'metrics',
      'abort',
      'drain',
    ])
  })
})
