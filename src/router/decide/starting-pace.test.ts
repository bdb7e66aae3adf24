/** What workers say of their own pace, before anything has come from them. */
import { describe, expect, it } from 'vitest'
import { buildPool, selected } from '../../../test/router/pool-fixture.ts'
import { card, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { EnginePace } from '../../request/index.ts'

const paceOf = (slowness: number): EnginePace => ({
  promptMs: 8 * slowness,
  promptTokenMs: 0.5 * slowness,
  stepMs: 20 * slowness,
  stepRequestMs: 0.5 * slowness,
  stepContextTokenMs: 0.001 * slowness,
})
const tokensOf = (count: number, first = 50_000): number[] =>
  Array.from({ length: count }, (_, i) => first + i)

describe('KvRouter: workers that report their speed', () => {
  function pool(slownesses: readonly (number | null)[], options = {}) {
    const built = buildPool({ cost: 'time', ...options })
    slownesses.forEach((slowness, i) => {
      const engine = slowness === null ? {} : { pace: paceOf(slowness) }
      built.router.workerJoined(card(i + 1, 'agg', { engine }))
    })
    let first = 100_000
    /** Computes a prompt on the worker, slower than `paceOf(1)` by the given factor. */
    const serve = (worker: number, slowness: number, tokens = 200): void => {
      const hint = { backendWorkerId: workerIdOf(worker) }
      const booking = built.router.book(
        selected(built.router, tokensOf(tokens, (first += 10_000)), hint),
      )
      built.clock.advance(slowness * (8 + 0.5 * tokens))
      built.router.prefillDone(booking)
      built.clock.advance(slowness * 20.5 * 10)
      built.router.served(booking, 11)
      built.router.free(booking)
    }
    const predicted = (worker: number, tokens: number): number | null =>
      selected(built.router, tokensOf(tokens), { backendWorkerId: workerIdOf(worker) })
        .predictedTtftMs
    return { ...built, serve, predicted }
  }

  it('the first request - is predicted, and goes to the fast worker', () => {
    const { router, predicted } = pool([4, 1, 4])
    expect(predicted(2, 1000)).toBeCloseTo(508, -1)
    expect(predicted(1, 1000)).toBeCloseTo(4 * 508, -2)
    expect(selected(router, tokensOf(400)).workerId).toBe('2')
  })

  it('no worker reports it - nothing is predicted before a measurement', () => {
    expect(pool([null, null]).predicted(1, 1000)).toBeNull()
  })

  it('some workers do not report it - they are assumed to be average', () => {
    const { predicted } = pool([1, null, 4])
    expect(predicted(2, 1000)).toBeCloseTo(2 * 508, -2)
  })

  it('a wrong report - measurements replace it after a few prompts', () => {
    const { predicted, serve } = pool([1, 1])
    for (let i = 0; i < 30; i++) serve(1 + (i % 2), 3, 100 + 40 * (i % 5))
    expect(predicted(1, 1000)).toBeGreaterThan(2.5 * 508)
    expect(predicted(1, 1000)).toBeLessThan(3.5 * 508)
  })

  it('all report too high a speed by the same factor - a worker that joins later is not taken for a faster one', () => {
    const { router, predicted, serve } = pool([1, 1])
    for (let i = 0; i < 60; i++) serve(1 + (i % 2), 3, 100 + 40 * (i % 5))
    router.workerJoined(card(3, 'agg', { engine: { pace: paceOf(1) } }))
    router.workerJoined(card(4, 'agg', { engine: { pace: paceOf(2) } }))
    const like = predicted(1, 1000) ?? 0
    expect((predicted(3, 1000) ?? 0) / like).toBeCloseTo(1, 0)
    expect((predicted(4, 1000) ?? 0) / like).toBeGreaterThan(1.6)
    expect((predicted(4, 1000) ?? 0) / like).toBeLessThan(2.4)
  })

  it('a worker that left - its report is dropped', () => {
    const { router, predicted } = pool([8])
    router.workerLeft(workerIdOf(1), 'gone')
    router.workerJoined(card(2, 'agg'))
    expect(predicted(2, 1000)).toBeNull()
    router.workerJoined(card(3, 'agg', { engine: { pace: paceOf(1) } }))
    expect(predicted(2, 1000)).toBeCloseTo(508, -1)
  })

  it('goals - choose between workers from the first request on, and refuse nobody before a measurement', () => {
    const { router, serve } = pool([1, 4])
    const goals = { ttftMs: 600 }
    for (let i = 0; i < 3; i++)
      router.book(selected(router, tokensOf(150, 10_000 * i), { backendWorkerId: workerIdOf(1) }))
    const { record } = selected(router, tokensOf(700), { goals })
    expect(record.candidates.map(({ terms }) => (terms['goals'] ?? 0) > 0)).toContain(true)
    const late = () =>
      router.goals.lateRefusal(
        {
          request: request(tokensOf(4000), { goals: { ttftMs: 1, itlMs: 1 } }),
          phase: 'aggregated',
          queuedMs: 0,
        },
        0,
      )
    expect(late()).toBeNull()
    for (let i = 0; i < 8; i++) serve(1 + (i % 2), 1)
    expect(late()).not.toBeNull()
  })
})
