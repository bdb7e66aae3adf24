import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventPrefixIndex } from './event-prefix-index.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { runScript, SCRIPT_HOLDERS } from '../prefix/prefix-index-suite.ts'
import type { Script } from '../prefix/prefix-index-suite.ts'

const step = fc.record({
  kind: fc.constantFrom(
    ...([
      'store',
      'store',
      'store',
      'store',
      'remove',
      'remove',
      'remove',
      'clear',
      'leave',
    ] as const),
  ),
  holder: fc.nat(SCRIPT_HOLDERS - 1),
  prompt: fc.nat(100),
  from: fc.nat(150),
  length: fc.oneof(fc.nat(6), fc.nat(150)),
  order: fc.nat(60),
  tier: fc.constantFrom(...(['device', 'device', 'device', 'host', 'disk'] as const)),
})

const script: fc.Arbitrary<Script> = fc.record({
  prompts: fc.array(
    fc.record({
      base: fc.nat(20),
      keep: fc.nat(140),
      tail: fc.array(fc.nat(2), { minLength: 1, maxLength: 70, size: 'max' }),
    }),
    { minLength: 1, maxLength: 5, size: 'max' },
  ),
  steps: fc.array(step, { minLength: 1, maxLength: 60, size: 'max' }),
  isTidy: fc.boolean(),
  hasEngineNames: fc.boolean(),
  areStatsCompared: fc.boolean(),
})

describe('EventPrefixIndex', () => {
  it('EventPrefixIndex - agrees with the oracle after any sequence of events', () => {
    fc.assert(
      fc.property(script, fc.constantFrom(-1e9, -3000, 1 << 18), (s, scanFreeBlocks) => {
        runScript(s, () => {
          const index = new EventPrefixIndex({ blocksMax: 1 << 14, scanFreeBlocks })
          return { index, check: () => checkRuns(index.device) }
        })
      }),
      { numRuns: Number(process.env['BATON_FUZZ_RUNS'] ?? 250) },
    )
  })

  it('EventPrefixIndex - with too little memory its results are at most those of the oracle', () => {
    fc.assert(
      fc.property(script, fc.constantFrom(256, 512), (s, blocksMax) => {
        runScript(s, () => {
          const index = new EventPrefixIndex({ blocksMax, bytesMax: 20_000 })
          return { index, check: () => checkRuns(index.device), isForgetful: true }
        })
      }),
      { numRuns: Number(process.env['BATON_FUZZ_RUNS'] ?? 100) },
    )
  })

  it('NaivePrefixIndex - passes its own suite', () => {
    fc.assert(
      fc.property(script, (s) => {
        runScript(s, () => ({ index: new NaivePrefixIndex() }))
      }),
      { numRuns: 20 },
    )
    expect(new NaivePrefixIndex().stats().entries).toBe(0)
  })
})
