/** Engines that compute one prompt after the other, a piece per step. */
import { describe, expect, it } from 'vitest'
import { createSchedulerConfig } from './scheduler-config.ts'
import { SimScheduler } from './sim-scheduler.ts'

const TIMING = { kind: 'linear', prefill: [0, 1], decode: [1, 0, 0] } as const

/** For each step: the requests that got their first token, and those that got a further one. */
function run(options: { promptsPerStep?: number; promptChunk?: number }): string[] {
  const config = createSchedulerConfig({ timing: TIMING, blockTokens: 16, ...options })
  const scheduler = new SimScheduler<string>(config)
  const request = { promptHashes: new Uint32Array(0), promptTokens: 100, outputTokens: 3 }
  for (const owner of ['a', 'b']) scheduler.submit({ ...request, owner }, 0)
  const steps: string[] = []
  for (let step = scheduler.step(0); step !== null; step = scheduler.step(step.endMs)) {
    const emitted = step.emitted.map(({ owner, generatedTokens }) => `${owner}${generatedTokens}`)
    steps.push(`${step.promptTokens}: ${emitted.join(' ')}`)
  }
  return steps
}

describe('SimScheduler - prompts per step', () => {
  it('no limit - both prompts in one step', () => {
    expect(run({})).toEqual(['200: a1 b1', '0: a2 b2', '0: a3 b3'])
  })

  it('one - the second prompt waits for the first, whose output continues', () => {
    expect(run({ promptsPerStep: 1 })).toEqual(['100: a1', '100: a2 b1', '0: a3 b2', '0: b3'])
    expect(run({ promptsPerStep: 2 })).toEqual(run({}))
  })

  it('chunks - limit the tokens of a prompt per step', () => {
    const steps = run({ promptsPerStep: 1, promptChunk: 60 })
    expect(steps).toEqual(['60: ', '40: a1', '60: a2', '40: a3 b1', '0: b2', '0: b3'])
    expect(run({ promptChunk: 60 })).toEqual(['120: ', '80: a1 b1', '0: a2 b2', '0: a3 b3'])
    expect(run({ promptChunk: 100 })).toEqual(run({}))
  })

  it('refuses limits below one', () => {
    expect(() => createSchedulerConfig({ promptsPerStep: 0 })).toThrow('promptsPerStep')
    expect(() => createSchedulerConfig({ promptChunk: 0 })).toThrow('promptChunk')
  })
})
