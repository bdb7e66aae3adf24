import { describe, expect, it } from 'vitest'
import { buildPool, select, selected } from '../../../test/router/pool-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { RouterOptions } from '../configuration/router-config.ts'
import type { Candidate } from '../cost/candidate.ts'

describe('KvRouter: cost in milliseconds', () => {
  /** Two workers that have each shown their pace: ms per prompt token. */
  function trained(paces: readonly number[]) {
    const pool = buildPool({ cost: 'time' })
    paces.forEach((_, i) => pool.router.workerJoined(card(i + 1)))
    for (let round = 1; round <= 10; round++) {
      paces.forEach((pace, i) => {
        const hint = { backendWorkerId: workerIdOf(i + 1) }
        const tokens = Array.from({ length: 16 * round }, (_, n) => 10_000 * round + 1000 * i + n)
        const booking = pool.router.book(selected(pool.router, tokens, hint))
        pool.clock.advance(pace * tokens.length)
        pool.router.prefillDone(booking)
        pool.clock.advance(100)
        pool.router.served(booking, 11)
        pool.router.free(booking)
      })
    }
    return pool
  }

  it('every term is in ms, and the faster worker is cheaper', () => {
    const { router } = trained([1, 4])
    const answer = selected(router, tokensOf(400))
    expect(answer.workerId).toBe('1')
    expect(answer.record.terms.map(({ unit }) => unit).slice(0, 6)).toEqual(Array(6).fill('ms'))
    const [fast, slow] = answer.record.candidates
    expect(fast?.terms['prefill']).toBeCloseTo(400, -1)
    expect(slow?.terms['prefill']).toBeCloseTo(1600, -1)
    expect(fast?.cost).toBeCloseTo(
      Object.entries(fast?.terms ?? {}).reduce((sum, [, ms]) => sum + ms, -1),
      6,
    )
    expect(router.status().ttftError).toBeLessThan(0.5)
  })

  it('the slow one takes over when the fast one has more before it', () => {
    const { router } = trained([1, 4])
    const where = Array.from({ length: 8 }, (_, i) => {
      const answer = selected(router, tokensOf(400, 100_000 * (i + 1)))
      router.book(answer)
      return answer.workerId
    })
    expect(where.slice(0, 2)).toEqual(['1', '1'])
    expect(where).toContain('2')
    expect(where.filter((id) => id === '1').length).toBeGreaterThan(4)
  })
})

const tokensOf = (count: number, first = 50_000): number[] =>
  Array.from({ length: count }, (_, i) => first + i)

describe("KvRouter: the user's parts fail", () => {
  const answerWith = (options: RouterOptions) => {
    const { router } = buildPool(options)
    router.workerJoined(card(1))
    router.workerJoined(card(2))
    return select(router, 16)
  }

  const always = (index: number): RouterOptions => ({ picker: () => index })
  it.each([
    ['scorer', { scorers: [{ name: 'bad', of: () => NaN }] }, "scorer 'bad' returned NaN"],
    ['picker', always(2), 'the picker returned 2, expected a whole number from 0 to 1'],
    ['picker', always(-1), 'the picker returned -1'],
    ['picker', always(0.5), 'the picker returned 0.5'],
  ] as const)('%s - the request is refused, and the record says why', (_, options, message) => {
    const answer = answerWith(options)
    expect(answer.kind === 'refused' && answer.error.code).toBe('runtime.internal')
    expect(answer.record.outcome).toMatchObject({ message: expect.stringContaining(message) })
  })

  it('filter - the rank is left out with the reason', () => {
    const filter = ({ card: { workerId } }: Candidate) =>
      workerId === '1' ? expect.fail('x') : null
    const answer = answerWith({ filters: [filter] })
    expect(answer.record.outcome).toMatchObject({ workerId: '2' })
    expect(answer.record.excluded[0]?.reason).toContain('filtered: the filter threw')
  })

  it('a name twice, or of a built-in term - config.invalid', () => {
    const term = (name: string) => ({ name, of: () => 0 })
    expect(() => answerWith({ scorers: [term('a'), term('a')] })).toThrow("scorer 'a' is invalid")
    expect(() => answerWith({ scorers: [term('device')] })).toThrow("scorer 'device' is invalid")
    expect(() => answerWith({ scorers: [term('a b')] })).toThrow('letters, digits, dots, dashes')
  })

  it('preferred taints - are in the cost of the selection, too', () => {
    const { router } = buildPool()
    router.workerJoined({ ...card(1), taints: ['fast'] })
    const plain = selected(router, 16).cost
    const preferred = selected(router, 16, { preferredTaints: { fast: 1 } })
    expect(preferred.cost).toBeCloseTo(plain * Math.exp(-Math.tanh(1)), 9)
    expect(preferred.cost).toBe(preferred.record.candidates[0]?.cost)
    const pinned = { preferredTaints: { fast: 1 }, backendWorkerId: workerIdOf(1) }
    expect(selected(router, 16, pinned).cost).toBe(preferred.cost)
  })
})
