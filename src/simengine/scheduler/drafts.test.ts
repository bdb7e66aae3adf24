import { describe, expect, it } from 'vitest'
import { createSchedulerConfig } from './scheduler-config.ts'
import { SimScheduler } from './sim-scheduler.ts'
import { Drafts } from './drafts.ts'
import { createSpeculationConfig } from './speculation-config.ts'
import type { SpeculationOptions } from './speculation-config.ts'

/** Number of tokens in each step until one request with this many tokens has ended. */
function tokensPerStep(
  speculation: SpeculationOptions,
  outputTokens: number,
  change: { rank?: number; tokenBudget?: number; blockCount?: number } = {},
): number[] {
  const { rank = 0, ...options } = change
  const scheduler = new SimScheduler<null>(
    createSchedulerConfig({ speculation, blockTokens: 4, ...options }),
    null,
    rank,
  )
  const promptHashes = new Uint32Array(0)
  scheduler.submit({ owner: null, promptTokens: 6, promptHashes, outputTokens }, 0)
  const tokens: number[] = []
  for (let step = scheduler.step(0); step !== null; step = scheduler.step(step.endMs))
    tokens.push(step.outputTokens)
  expect(scheduler.pool.activeCount).toBe(0)
  return tokens
}

describe('SimScheduler - speculation', () => {
  it('drafts that are always right - the first token alone, then all drafts, never more than the limits', () => {
    const always = { drafts: 3, acceptRates: [1, 1, 1] }
    expect(tokensPerStep(always, 10)).toEqual([1, 4, 4, 1])
    expect(tokensPerStep(always, 1)).toEqual([1])
    // A step has a budget of two tokens: the prompt takes three steps, then one draft fits behind each token.
    expect(tokensPerStep(always, 5, { tokenBudget: 2 })).toEqual([0, 0, 1, 2, 2])
  })

  it('drafts that are never right - one token per step', () => {
    expect(tokensPerStep({ drafts: 2, acceptRates: [0, 1] }, 4)).toEqual([1, 1, 1, 1])
  })

  it('a cache without free blocks for drafts - continues without them', () => {
    const always = { drafts: 5, acceptRates: [1, 1, 1, 1, 1] }
    // Two blocks hold 8 tokens: 6 of the prompt and two of the output; the KV of the last is never computed.
    expect(tokensPerStep(always, 3, { blockCount: 2 })).toEqual([1, 2])
  })

  it('seed and rank - determine the result, with the given rates', () => {
    const options = { drafts: 2, acceptRates: [0.8, 0.5], seed: 7 }
    expect(tokensPerStep(options, 200)).toEqual(tokensPerStep(options, 200))
    expect(tokensPerStep(options, 200)).not.toEqual(tokensPerStep(options, 200, { rank: 1 }))
    const drafts = new Drafts(createSpeculationConfig(options), 0)
    const runs = Array.from({ length: 10_000 }, () => drafts.accepted(2))
    expect(runs.filter((count) => count >= 1).length / 10_000).toBeCloseTo(0.8, 1)
    expect(runs.filter((count) => count === 2).length / 10_000).toBeCloseTo(0.4, 1)
  })

  it.each([
    ['drafts', { drafts: 0, acceptRates: [] }],
    ['drafts', { drafts: 6, acceptRates: [1, 1, 1, 1, 1, 1] }],
    ['acceptRates', { drafts: 2, acceptRates: [1] }],
    ['acceptRates', { drafts: 1, acceptRates: [1.1] }],
    ['seed', { drafts: 1, acceptRates: [1], seed: -1 }],
  ])('%s - is refused by name', (name, options) => {
    expect(() => createSpeculationConfig(options)).toThrow(`speculation.${name}`)
  })
})
