import { describe, expect, it } from 'vitest'
import { buildPool, selected } from '../../../test/router/pool-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { ToldPrompt } from './peer-prompts.ts'

const prompt = (worker: number, told: Partial<ToldPrompt> = {}): ToldPrompt => ({
  kind: 'sent',
  workerId: workerIdOf(worker),
  dpRank: 0,
  promptTokens: 2000,
  uncachedTokens: 2000,
  runs: true,
  ...told,
})

/** With a known speed the router decides by time at once. */
const PACE = {
  promptMs: 5,
  promptTokenMs: 0.1,
  stepMs: 10,
  stepRequestMs: 0.1,
  stepContextTokenMs: 0,
}

function poolOf(workers: number) {
  const { router, clock } = buildPool({ cost: 'time' })
  for (let id = 1; id <= workers; id++)
    router.workerJoined(card(id, 'agg', { engine: { pace: PACE } }))
  let asked = 0
  /** How long a prompt sent now would wait at that worker. */
  const waitAt = (worker: number): number => {
    const tokens = Array.from({ length: 64 }, (_, i) => 1000 * ++asked + i)
    const { candidates } = selected(router, tokens).record
    const seen = candidates.find(({ workerId }) => workerId === workerIdOf(worker))
    return seen?.terms['queue'] ?? NaN
  }
  return { router, clock, waitAt }
}

describe('PeerPrompts', () => {
  it('a prompt of another frontend - delays own prompts until it is computed', () => {
    const { router, waitAt } = poolOf(2)
    router.peers.learn(prompt(1))
    expect(waitAt(1)).toBeGreaterThan(100)
    expect(waitAt(2)).toBe(0)
    router.peers.learn(prompt(1, { kind: 'computed' }))
    expect(waitAt(1)).toBe(0)
  })

  it('an end without a prompt, and an unknown worker - are ignored', () => {
    const { router, waitAt } = poolOf(1)
    router.peers.learn(prompt(1, { kind: 'computed' }))
    router.peers.learn(prompt(9))
    router.peers.learn(prompt(1, { dpRank: 3 }))
    expect(waitAt(1)).toBe(0)
  })

  it('a frontend that dies - its prompts count for five seconds', () => {
    const { router, clock, waitAt } = poolOf(1)
    router.peers.learn(prompt(1))
    clock.advance(4900)
    expect(waitAt(1)).toBeGreaterThan(0)
    clock.advance(200)
    expect(waitAt(1)).toBe(0)
  })

  it('more prompts than are kept - the oldest are dropped, and all of them expire', () => {
    const { router, clock, waitAt } = poolOf(3)
    for (let i = 0; i < 10_000; i++) router.peers.learn(prompt(1 + (i % 3)))
    const many = waitAt(1)
    for (let i = 0; i < 10_000; i++) router.peers.learn(prompt(1 + (i % 3)))
    expect(waitAt(1) / many).toBeCloseTo(1, 1)
    clock.advance(5001)
    expect([1, 2, 3].map(waitAt)).toEqual([0, 0, 0])
  })

  it('the worker leaves and joins again - its prompts are dropped', () => {
    const { router, waitAt } = poolOf(2)
    router.peers.learn(prompt(1))
    router.workerLeft(workerIdOf(1), 'closed')
    router.workerJoined(card(1, 'agg', { engine: { pace: PACE } }))
    expect(waitAt(1)).toBe(0)
    router.peers.learn(prompt(1, { kind: 'computed' }))
    expect(waitAt(1)).toBe(0)
  })

  it('a prompt that the worker has reported as well - counts once', () => {
    const { router, waitAt } = poolOf(1)
    const report = {
      sequence: 0,
      dpRank: 0,
      runningRequests: 1,
      queuedRequests: 0,
      prefillTokensInFlight: 2000,
      activeBlocks: 0,
      totalBlocks: 0,
    }
    router.peers.learn(prompt(1))
    const once = waitAt(1)
    router.load(workerIdOf(1), report)
    expect(waitAt(1)).toBeCloseTo(once, 6)
    const other = poolOf(1)
    other.router.load(workerIdOf(1), report)
    other.router.peers.learn(prompt(1))
    expect(other.waitAt(1)).toBeLessThan(1.1 * once)
  })
})
