import { describe, expect, it } from 'vitest'
import type { Chunk, EngineConfig } from '../../request/index.ts'
import type { EngineChunk } from '../engine-chunk.ts'
import { BackwardsEngine } from '../../../examples/engine-in-30-lines.ts'
import { osClock } from '../../os/os-clock.ts'
import { VirtualClock } from '../../sim/index.ts'
import { SimEngine } from '../../simengine/engine/sim-engine.ts'
import type { SimEngineOptions } from '../../simengine/engine/sim-options.ts'
import { describeFailures } from './conformance-report.ts'
import { runConformance } from './run-conformance.ts'

describe('runConformance - engines that follow the contract', () => {
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
      'kv-blocks',
      'metrics',
      'abort',
      'held',
      'quiescence',
      'drain',
    ])
  })

  it('an engine that answers text, and ids in typed arrays', async () => {
    for (const change of [
      (chunk: EngineChunk): EngineChunk =>
        chunk.finish === undefined ? { text: `${chunk.tokenIds?.[0]} ` } : chunk,
      (chunk: EngineChunk): EngineChunk => ({
        ...chunk,
        tokenIds: Uint32Array.from(chunk.tokenIds ?? []),
      }),
    ]) {
      class Changed extends BackwardsEngine {
        override async *generate(
          ...call: Parameters<BackwardsEngine['generate']>
        ): AsyncIterable<Chunk> {
          for await (const chunk of super.generate(...call)) yield change(chunk) as Chunk
        }
      }
      const report = await runConformance(() => new Changed(), { clock: osClock })
      expect(describeFailures(report)).toBe('')
    }
  })

  it('a timer that throws - is reported, and previous listeners are restored', async () => {
    const before = process.listeners('uncaughtException')
    class Careless extends BackwardsEngine {
      override async start(): Promise<EngineConfig> {
        setTimeout(() => {
          throw new Error('nobody catches this')
        })
        return await super.start()
      }
    }
    const report = await runConformance(() => new Careless(), { clock: osClock })
    expect(report.failures.map(({ rule }) => rule)).toEqual(['stray-error'])
    expect(process.listeners('uncaughtException')).toEqual(before)
  })
})
