import { describe, expect, it } from 'vitest'
import { buildPool, selected } from '../../../test/router/pool-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import { workerIdOf } from '../../base/index.ts'
import { PeerRequests } from './peer-requests.ts'
import type { ToldPrompt } from './peer-requests.ts'
import { RankBacklog } from './rank-backlog.ts'
import { RankRates } from './rank-rates.ts'
import { RankTable } from '../ranks/rank-table.ts'

const prompt = (worker: number, told: Partial<ToldPrompt> = {}): ToldPrompt => ({
  kind: 'sent',
  workerId: workerIdOf(worker),
  dpRank: 0,
  promptTokens: 2000,
  uncachedTokens: 2000,
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

const IDLE = {
  dpRank: 0,
  runningRequests: 0,
  queuedRequests: 0,
  prefillTokensInFlight: 0,
  activeBlocks: 0,
  totalBlocks: 0,
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
  /** Requests of other frontends that count at the worker. */
  const peersAt = (worker: number): number => {
    router.peers.expire()
    const seen = router.status().ranks.find(({ workerId }) => workerId === workerIdOf(worker))
    return seen?.peerRequests ?? NaN
  }
  return { router, clock, waitAt, peersAt }
}

describe('PeerRequests', () => {
  it('a prompt of another frontend - delays own prompts until it is computed', () => {
    const { router, waitAt } = poolOf(2)
    router.peers.learn(prompt(1))
    expect(waitAt(1)).toBeGreaterThan(100)
    expect(waitAt(2)).toBe(0)
    router.peers.learn(prompt(1, { kind: 'running' }))
    expect(waitAt(1)).toBe(0)
  })

  it('an end without a prompt, and an unknown worker - are ignored', () => {
    const { router, waitAt } = poolOf(1)
    router.peers.learn(prompt(1, { kind: 'running' }))
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
    router.peers.learn(prompt(1, { kind: 'running' }))
    expect(waitAt(1)).toBe(0)
  })

  it('a prompt that the worker has reported as well - counts once', () => {
    const { router, waitAt } = poolOf(1)
    const report = { ...IDLE, runningRequests: 1, prefillTokensInFlight: 2000 }
    router.peers.learn(prompt(1))
    const once = waitAt(1)
    router.load(workerIdOf(1), report)
    expect(waitAt(1)).toBeCloseTo(once, 6)
    const other = poolOf(1)
    other.router.load(workerIdOf(1), report)
    other.router.peers.learn(prompt(1))
    expect(other.waitAt(1)).toBeLessThan(1.1 * once)
  })

  it('a running request - counts until it ends', () => {
    const { router, peersAt } = poolOf(2)
    router.peers.learn(prompt(1))
    router.peers.learn(prompt(1, { kind: 'running' }))
    expect([peersAt(1), peersAt(2)]).toEqual([1, 0])
    router.peers.learn(prompt(1, { kind: 'ended' }))
    expect(peersAt(1)).toBe(0)
  })

  it('a decode worker gets a prompt that was computed elsewhere - runs without being sent', () => {
    const { router, peersAt, waitAt } = poolOf(2)
    router.peers.learn(prompt(1, { kind: 'running', uncachedTokens: 0 }))
    expect([peersAt(1), waitAt(1)]).toEqual([1, 0])
  })

  it('the phase of steps - does not tell when a prompt begins, until others have been silent for ten seconds', () => {
    const clock = new ManualClock()
    const [table, rates, backlog] = [new RankTable(), new RankRates(), new RankBacklog()]
    table.join(card(1, 'agg'))
    backlog.stepEndMs[0] = 7
    const ignore = (): void => undefined
    const tells = { onChanged: ignore, onAnswered: ignore, onMeasured: ignore, tell: null }
    const peers = new PeerRequests({ table, rates, backlog, clock, ...tells })
    expect(backlog.phaseMs(0)).toBe(7)
    peers.learn(prompt(1, { kind: 'ended' }))
    expect(backlog.phaseMs(0)).toBe(-Infinity)
    clock.advance(9_999)
    peers.expire()
    expect(backlog.phaseMs(0)).toBe(-Infinity)
    clock.advance(1_000)
    peers.expire()
    expect(backlog.phaseMs(0)).toBe(7)
  })

  it('a request that ended before its first token - no longer delays prompts', () => {
    const { router, waitAt } = poolOf(1)
    router.peers.learn(prompt(1))
    router.peers.learn(prompt(1, { kind: 'ended' }))
    expect(waitAt(1)).toBe(0)
  })

  it('a frontend dies while its requests run - they count until the worker reports that they ended', () => {
    const { router, clock, peersAt } = poolOf(1)
    for (let i = 0; i < 3; i++) router.peers.learn(prompt(1, { kind: 'running' }))
    clock.advance(100)
    router.load(workerIdOf(1), { ...IDLE, runningRequests: 1 })
    expect(peersAt(1), 'the report may be older than the requests').toBe(3)
    clock.advance(1000)
    router.load(workerIdOf(1), { ...IDLE, runningRequests: 1 })
    expect(peersAt(1)).toBe(1)
  })

  it('a frontend dies and the worker sends no load reports - its requests count for half a minute', () => {
    const { router, clock, peersAt } = poolOf(1)
    router.peers.learn(prompt(1, { kind: 'running' }))
    clock.advance(29_000)
    expect(peersAt(1)).toBe(1)
    clock.advance(1_001)
    expect(peersAt(1)).toBe(0)
  })

  it('more running requests than are kept - the oldest are dropped', () => {
    const { router, clock, peersAt } = poolOf(2)
    for (let i = 0; i < 5000; i++) router.peers.learn(prompt(1, { kind: 'running' }))
    expect(peersAt(1)).toBe(1024)
    clock.advance(30_001)
    expect(peersAt(1)).toBe(0)
  })

  it('times that another frontend has measured - teach the speed of the rank', () => {
    const { router, waitAt } = poolOf(2)
    const first = { elapsedMs: 2050, waitMs: 0, stepMs: 0 }
    for (let i = 0; i < 30; i++) {
      router.peers.learn(prompt(1, { kind: 'ended', first }))
      router.peers.learn(prompt(2, { kind: 'ended', first: { ...first, elapsedMs: 205 } }))
    }
    router.peers.learn(prompt(1))
    router.peers.learn(prompt(2))
    expect(waitAt(1) / waitAt(2)).toBeGreaterThan(4)
  })
})
