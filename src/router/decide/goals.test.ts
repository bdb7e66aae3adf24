import { describe, expect, it } from 'vitest'
import { buildPool, selected } from '../../../test/router/pool-fixture.ts'
import { buildModel, stored } from '../../../test/router/model-fixture.ts'
import { card, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { LatencyGoals } from '../../request/index.ts'
import { completeRouterConfig } from '../configuration/router-config.ts'
import type { RouterOptions } from '../configuration/router-config.ts'
import { goalsOfClass, lateMs } from './goals-left.ts'

const tokensOf = (count: number, first = 50_000): number[] =>
  Array.from({ length: count }, (_, i) => first + i)

/** Workers that have each shown their pace: ms per prompt token, and per token of output. */
function trained(
  paces: readonly (readonly [number, number])[],
  options: RouterOptions = {},
  rounds = 10,
) {
  const pool = buildPool({ cost: 'time', ...options })
  paces.forEach((_, i) => pool.router.workerJoined(card(i + 1)))
  for (let round = 1; round <= rounds; round++) {
    paces.forEach(([perToken, perOutput], i) => {
      const tokens = tokensOf(16 * round, 10_000 * round + 1000 * i)
      const booking = pool.router.book(
        selected(pool.router, tokens, { backendWorkerId: workerIdOf(i + 1) }),
      )
      pool.clock.advance(perToken * tokens.length)
      pool.router.prefillDone(booking)
      pool.clock.advance(10 * perOutput)
      pool.router.served(booking, 11)
      pool.router.free(booking)
    })
  }
  const refusal = (goals: LatencyGoals, tokens = 100, waitMs = 0) =>
    pool.router.goals.lateRefusal(
      {
        request: request(tokensOf(tokens, 900_000), { goals }),
        phase: 'aggregated',
        queuedMs: 0,
      },
      waitMs,
    )
  return { ...pool, refusal }
}

describe('latency goals: choice of the worker', () => {
  it('a worker that meets the goals - is preferred to a cheaper one', () => {
    // Worker 1: prompts quickly, tokens slowly. Worker 2: the other way round.
    const { router } = trained([
      [1, 40],
      [3, 5],
    ])
    const at = (goals: LatencyGoals) => selected(router, tokensOf(400), { goals })
    expect(selected(router, tokensOf(400), { expectedOutputTokens: 1 }).workerId).toBe('1')
    const answer = at({ itlMs: 20 })
    expect(answer.workerId).toBe('2')
    expect(at({ ttftMs: 800 }).workerId).toBe('1')
    const [best, other] = answer.record.candidates
    expect([best?.terms['goals'], (other?.terms['goals'] ?? 0) > 100]).toEqual([0, true])
    const sum = (values: Readonly<Record<string, number>>) =>
      answer.record.terms.reduce(
        (total, { name, role, weight }) =>
          role === 'add' ? total + weight * (values[name] ?? 0) : total,
        0,
      )
    for (const { cost, terms } of answer.record.candidates) expect(cost).toBeCloseTo(sum(terms), 3)
  })

  it('no worker meets them and refusals are off - the one that misses them least', () => {
    const { router } = trained([
      [1, 10],
      [3, 10],
    ])
    router.book(selected(router, tokensOf(3000, 700_000), { backendWorkerId: workerIdOf(1) }))
    expect(selected(router, tokensOf(400), { goals: { ttftMs: 1 } }).workerId).toBe('2')
  })

  it('no goals, other cost model, or no measurements yet - no effect', () => {
    const { router } = trained([[1, 10]])
    expect(selected(router, 16).record.candidates[0]?.terms['goals']).toBe(0)
    const young = trained([[1, 10]], {}, 7)
    expect(young.refusal({ ttftMs: 1 })).toBeNull()
    expect(trained([[1, 10]], {}, 8).refusal({ ttftMs: 1 })).not.toBeNull()
    expect(trained([[1, 10]], { cost: 'blocks' }).refusal({ ttftMs: 1 })).toBeNull()
    expect(trained([[1, 10]], { refuseLateGoals: false }).refusal({ ttftMs: 1 })).toBeNull()
  })
})

describe('latency goals: refusals', () => {
  it('a goal that no worker can meet - a stable code, both times and a retry time', () => {
    const { refusal, router } = trained([
      [2, 10],
      [1, 10],
    ])
    expect(refusal({ ttftMs: 250 }, 100)).toBeNull()
    const error = refusal({ ttftMs: 20 }, 100)
    expect(error?.code).toBe('capacity.goal_unreachable')
    expect(error?.row).toMatchObject({ httpStatus: 503, retryable: true })
    expect(error?.data).toMatchObject({ limit: 20, stage: 'aggregated' })
    expect(error?.data['current']).toBeGreaterThan(60)
    expect(error?.data['current']).toBeLessThan(150)
    expect(error?.data['retryAfterMs']).toBe(1000)
    expect(refusal({ itlMs: 3 })?.message).toContain('time between tokens')
    expect(refusal({ itlMs: 15 })).toBeNull()
    expect(router.status().refusals).toBe(2)
  })

  it('the wait before it counts, and decaying load gives the retry time', () => {
    const { refusal } = trained([[1, 10]])
    expect(refusal({ ttftMs: 1000 }, 100, 500)).toBeNull()
    expect(refusal({ ttftMs: 1000 }, 100, 6000)?.data['retryAfterMs']).toBeGreaterThan(3000)
    expect(refusal({ ttftMs: 1000 }, 100, 600_000)?.data['retryAfterMs']).toBe(30_000)
  })

  it('a refusal - is recorded', () => {
    const { plane, send, clock, router } = buildModel([card(1)], { cost: 'time' })
    for (let i = 0; i < 8; i++) {
      send({}, tokensOf(16 * (i + 1), 10_000 * (i + 1)))
      clock.advance(16 * (i + 1))
      plane.call(i).token()
      plane.call(i).finish()
    }
    const { sent, sink } = send({ goals: { ttftMs: 1 } })
    expect(sink.errors[0]?.code).toBe('capacity.goal_unreachable')
    expect(router.explain(sent.requestId)?.map(({ outcome }) => outcome)).toEqual([
      {
        kind: 'refused',
        code: 'capacity.goal_unreachable',
        message: expect.stringContaining('the goal of 1 ms'),
      },
    ])
    expect(plane.calls).toHaveLength(8)
  })

  it('refused for 5 s without a first token - one probe request is sent, then requests are refused again', () => {
    const { refusal, clock } = trained([[1, 10]])
    const isRefused = () => refusal({ ttftMs: 1 }) !== null
    expect(isRefused()).toBe(true)
    clock.advance(4999)
    expect(isRefused()).toBe(true)
    clock.advance(1)
    expect([isRefused(), isRefused()]).toEqual([false, true])
  })

  it('in the queue - a request that can no longer be in time is refused, the others keep waiting', () => {
    const { plane, clock, send, router } = buildModel(
      [card(1, 'agg', { engine: { maxNumSeqs: 1 } })],
      {
        cost: 'time',
        engineQueue: 1,
        deadlines: { overloadWaitMs: 0 },
      },
    )
    for (let i = 0; i < 10; i++) {
      send({}, tokensOf(16 * (i + 1), 10_000 * (i + 1)))
      clock.advance(16 * (i + 1))
      plane.call(i).token()
      clock.advance(10)
      plane.call(i).finish()
    }
    send()
    send()
    const late = send({ goals: { ttftMs: 20_000 } })
    const other = send()
    const loose = send({ goals: { ttftMs: 100_000 } })
    expect(router.status().decode.queuedRequests).toBe(3)
    clock.advance(20_000)
    expect(late.sink.errors[0]?.code).toBe('capacity.goal_unreachable')
    expect(late.sink.errors[0]?.data).toMatchObject({ stage: 'queue', limit: 20_000 })
    expect([other.sink.ends, loose.sink.ends]).toEqual([0, 0])
  })

  it('on arrival - requests queued before it count, at the rate at which requests are sent', () => {
    const { plane, clock, send } = buildModel([card(1, 'agg', { engine: { maxNumSeqs: 1 } })], {
      cost: 'time',
      engineQueue: 1,
      deadlines: { overloadWaitMs: 0, queueMs: 0 },
    })
    for (let i = 0; i < 10; i++) {
      send({}, tokensOf(16, 10_000 * (i + 1)))
      clock.advance(100)
      plane.call(i).token()
      clock.advance(100)
      plane.call(i).finish()
    }
    for (let i = 0; i < 40; i++) send()
    for (let i = 10; i < 26; i++) {
      clock.advance(100)
      plane.call(i).token()
      clock.advance(100)
      plane.call(i).finish()
    }
    // One request is sent per 200 ms: about fifty within 11 s, and more if predictions have been off.
    const sinks = Array.from({ length: 200 }, () => send({ goals: { ttftMs: 11_000 } }).sink)
    const refused = sinks.filter(({ ends }) => ends === 1)
    expect(sinks[0]?.ends).toBe(0)
    expect(refused.length).toBeGreaterThan(50)
    expect(
      refused.every(({ errors: [error] }) => error?.code === 'capacity.goal_unreachable'),
    ).toBe(true)
    // Requests without a goal, or with a higher priority, are not refused because of the queue.
    expect(send().sink.ends).toBe(0)
    expect(send({ strictPriority: 1, goals: { ttftMs: 11_000 } }).sink.ends).toBe(0)
  })

  it('a migrated request - has already had its first token', () => {
    const { router } = trained([[1, 10]])
    const query = (resumedTokens: number) => ({
      request: { ...request(tokensOf(100), { goals: { ttftMs: 1 } }), resumedTokens },
      phase: 'aggregated' as const,
      queuedMs: 0,
    })
    expect(router.goals.lateRefusal(query(1), 0)).toBeNull()
    expect(router.goals.lateRefusal(query(0), 0)).not.toBeNull()
  })
})

describe('latency goals: order of the queue', () => {
  it.each([
    ['fcfs', ['first', 'tight', 'plain', 'loose']],
    ['lcfs', ['first', 'plain', 'tight', 'loose']],
  ] as const)('%s', (queuePolicy, expected) => {
    const { plane, send, clock } = buildModel([card(1, 'agg', { engine: { maxNumSeqs: 1 } })], {
      cost: 'time',
      engineQueue: 1,
      queuePolicy,
      deadlines: { overloadWaitMs: 0 },
    })
    const names = new Map<string, string>()
    const as = (name: string, goals?: LatencyGoals) => {
      names.set(send(goals === undefined ? {} : { goals }).sent.requestId, name)
      clock.advance(1)
    }
    as('first')
    as('behind it')
    as('loose', { ttftMs: 60_000 })
    as('tight', { ttftMs: 5000 })
    as('plain')
    for (let i = 0; i < 4; i++) plane.call(i).finish()
    const order = plane.calls.map(({ request: { requestId } }) => names.get(requestId))
    expect(order.filter((name) => name !== 'behind it')).toEqual(expected)
  })
})

describe('latency goals: of a class', () => {
  const { policyClasses } = completeRouterConfig({
    policyClasses: [
      { name: 'default', ttftTargetMs: 1000 },
      { name: 'chat', ttftTargetMs: 300, itlTargetMs: 25 },
      { name: 'batch' },
    ],
  })

  it('from the named class, else from the default class', () => {
    expect(goalsOfClass(policyClasses, 'chat', null)).toEqual({ ttftMs: 300, itlMs: 25 })
    expect(goalsOfClass(policyClasses, 'batch', null)).toBeUndefined()
    expect(goalsOfClass(policyClasses, 'nobody', null)).toEqual({ ttftMs: 1000 })
    expect(goalsOfClass(policyClasses, undefined, null)).toEqual({ ttftMs: 1000 })
  })

  it.each([0, -1, 3_600_000.5, Infinity])('%s ms - config.invalid', (ttftTargetMs) => {
    const policyClass = { name: 'default', ttftTargetMs }
    expect(() => completeRouterConfig({ policyClasses: [policyClass] })).toThrow('ttftTargetMs')
  })

  it('from the member of a family that matches the uncached length; undecided before the prompt is tokenized', () => {
    const { policyClasses } = completeRouterConfig({
      policyClasses: [
        { name: 'default', ttftTargetMs: 9000 },
        { name: 'short', family: 'chat', ttftTargetMs: 300, itlTargetMs: 20 },
        { name: 'long', family: 'chat', minUncachedTokens: 1000, ttftTargetMs: 3000 },
        { name: 'huge', family: 'chat', minUncachedTokens: 9000 },
        { name: 'big', family: 'report', minUncachedTokens: 500, itlTargetMs: 5 },
      ],
    })
    const of = (name: string, tokens: number) => goalsOfClass(policyClasses, name, () => tokens)
    expect(of('chat', 999)).toEqual({ ttftMs: 300, itlMs: 20 })
    expect(of('chat', 1000)).toEqual({ ttftMs: 3000 })
    expect(of('chat', 9000)).toBeUndefined()
    expect(of('long', 10)).toEqual({ ttftMs: 3000 })
    expect(of('report', 499)).toEqual({ ttftMs: 9000 })
    expect(goalsOfClass(policyClasses, 'chat', null)).toBeUndefined()
  })

  it.each([
    ['aggregated', [card(1)]],
    ['with a prefill worker', [card(1, 'prefill'), card(2, 'decode')]],
  ] as const)('of a family, %s - what is cached does not count, and it is told', (_, cards) => {
    const { plane, send, router } = buildModel(cards, {
      policyClasses: [
        { name: 'short', family: 'default', ttftTargetMs: 300 },
        {
          name: 'long',
          family: 'default',
          minUncachedTokens: 24,
          ttftTargetMs: 3000,
          itlTargetMs: 9,
        },
      ],
    })
    const asked = () => {
      const { sink } = send({ goals: { itlMs: 50 } }, 32)
      const { goals } = plane.calls.at(-1)!.request.routing
      const told = sink.phases.find(({ kind }) => kind === 'prefillQueued')
      expect(told).toMatchObject({ goals: { ttftMs: goals?.ttftMs, itlMs: 50 } })
      return goals?.ttftMs
    }
    expect(asked()).toBe(3000)
    router.fleet.kvEvents(workerIdOf(1), stored(16))
    expect(asked()).toBe(300)
  })

  it('each goal of the request takes precedence over its class; the deadline spans both legs', () => {
    const { plane, send, router, clock } = buildModel([card(1)], {
      policyClasses: [{ name: 'default', ttftTargetMs: 1000, itlTargetMs: 30 }],
    })
    clock.advance(7)
    send({ goals: { ttftMs: 200 } })
    expect(plane.call(0).request.routing.goals).toEqual({
      ttftMs: 200,
      itlMs: 30,
      firstTokenByMs: clock.nowMs() + 200,
    })
    expect(router.goalsOf({ goals: { ttftMs: 200 } })).toEqual({ ttftMs: 200, itlMs: 30 })
  })
})

it('lateMs - the total time by which goals are missed, at least a millisecond', () => {
  const left = { ttftMs: 100, itlMs: 10 }
  expect(lateMs(left, 100, 10, 50)).toBe(0)
  expect(lateMs(left, 100.1, 10, 50)).toBe(1)
  expect(lateMs(left, 130, 12, 50)).toBe(130)
})
