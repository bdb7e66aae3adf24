/** Speed is learned from answers whose first token cannot be seen. */
import { describe, expect, it } from 'vitest'
import { buildPool } from '../../../test/router/pool-fixture.ts'
import { card, request } from '../../../test/router/scripted-plane.ts'
import { seededRandom, workerIdOf } from '../../base/index.ts'
import type { ForwardedRequest, RoutingHints } from '../../request/index.ts'
import { WholeAnswers } from './whole-answers.ts'

describe('WholeAnswers', () => {
  it('total times of answers of different lengths - are split into first token and later ones', () => {
    const answers = new WholeAnswers()
    const random = seededRandom(5)
    let split = null
    for (let i = 0; i < 200; i++) {
      const uncachedTokens = Math.round(4000 * random.next())
      const outputTokens = 1 + Math.round(300 * random.next())
      const requests = 1 + Math.round(10 * random.next())
      const totalMs =
        (30 + 0.05 * uncachedTokens + (outputTokens - 1) * (8 + 0.5 * requests)) *
        (0.9 + 0.2 * random.next())
      split = answers.split({ uncachedTokens, outputTokens, requests, totalMs })
      if (i < 7) expect(split).toBeNull()
    }
    const exact = { uncachedTokens: 2000, outputTokens: 101, requests: 4, totalMs: 130 + 1000 }
    const { ttftMs = 0, itlMs = 0 } = answers.split(exact) ?? {}
    expect(Math.abs(ttftMs - 130)).toBeLessThan(20)
    expect(Math.abs((itlMs ?? 0) - 10)).toBeLessThan(0.5)
  })
})

describe('KvRouter: forwarded answers that are not streamed', () => {
  const forward: ForwardedRequest = {
    method: 'POST',
    path: '/v1/chat/completions',
    headers: {},
    body: new Uint8Array(),
    isStream: false,
    sink: { onWhole: () => undefined, onHead: () => undefined, onBytes: () => undefined },
    errorEvent: () => '',
  }

  const tokensOf = (length: number, first: number): number[] =>
    Array.from({ length }, (_, i) => first + i)

  const select = (
    router: ReturnType<typeof buildPool>['router'],
    tokens: readonly number[],
    routing: RoutingHints,
  ) => {
    const query = { ...request(tokens, routing), forward }
    const answer = router.select({ request: query, phase: 'aggregated', queuedMs: 0 })
    if (answer.kind === 'refused') throw answer.error
    return answer
  }

  it('teach the speed of each worker - and do not count as prefill until their end', () => {
    const { router, clock } = buildPool({ cost: 'time', predictedTtlSeconds: 0 })
    for (const id of [1, 2]) router.workerJoined(card(id))
    const random = seededRandom(9)
    for (let i = 0; i < 200; i++) {
      const worker = 1 + (i % 2)
      const prompt = 64 * (1 + Math.floor(30 * random.next()))
      const output = 2 + Math.floor(100 * random.next())
      const hint = { backendWorkerId: workerIdOf(worker) }
      const booking = router.book(select(router, tokensOf(prompt, 5000 * (i + 1)), hint))
      clock.advance((worker === 1 ? 1 : 4) * (20 + 0.05 * prompt + (output - 1) * 8))
      router.prefillDone(booking)
      router.served(booking, 1, output)
      router.free(booking)
    }
    const idle = select(router, tokensOf(1000, 9_000_000), {})
    expect(idle.workerId).toBe('1')
    expect(idle.predictedTtftMs ?? 0).toBeGreaterThan(50)
    expect(idle.predictedTtftMs ?? 0).toBeLessThan(90)
    router.book(idle)
    // Its prompt is long computed, although nothing of the reply has arrived.
    clock.advance(500)
    const next = select(router, tokensOf(1000, 9_500_000), {})
    expect(next.workerId).toBe('1')
    expect(next.predictedTtftMs ?? 0).toBeLessThan(110)
  })
})
