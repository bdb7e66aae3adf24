import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import { refusal } from '../../../test/api/refusal.ts'
import type { ApiKey } from './api-key.ts'
import { KeyLimits, parseKeyUseNews } from './key-limits.ts'

const KEY: ApiKey = { id: 'a', tenant: 't' }

function start(terms: Partial<ApiKey>) {
  const clock = new ManualClock()
  const limits = new KeyLimits(clock)
  const key = { ...KEY, ...terms }
  return { clock, limits, key, admit: () => limits.admit(key) }
}

describe('KeyLimits', () => {
  it('no limits - everything is admitted', () => {
    const { admit } = start({})
    for (let i = 0; i < 1000; i++) admit()
  })

  it('concurrency - admitted up to the limit and not above; the end of a request frees its place once', () => {
    const { admit } = start({ concurrency: 2 })
    const leave = admit()
    admit()
    expect(refusal(admit)?.message).toContain('2 concurrent requests')
    leave(0)
    admit()
    expect(refusal(admit)?.code).toBe('request.rate_limited')
  })

  it("requests per minute - a full minute's allowance at once, then spread evenly over the minute", () => {
    const { admit, clock } = start({ requestsPerMinute: 60 })
    for (let i = 0; i < 60; i++) admit()(0)
    const refused = refusal(admit)
    expect(refused?.data['retryAfterMs']).toBe(1000)
    clock.advance(999)
    expect(refusal(admit)).not.toBeNull()
    clock.advance(1)
    admit()(0)
    expect(refusal(admit)).not.toBeNull()
    clock.advance(3_600_000)
    for (let i = 0; i < 60; i++) admit()(0)
    expect(refusal(admit)).not.toBeNull()
  })

  it('tokens per minute - are charged at the end; the next request waits until the debt is paid', () => {
    const { admit, clock } = start({ tokensPerMinute: 6000 })
    const first = admit()
    const second = admit()
    first(6000)
    second(100)
    const refused = refusal(admit)
    expect(refused?.message).toContain('6000 tokens per minute')
    expect(refused?.data['retryAfterMs']).toBe(1000)
    clock.advance(1001)
    admit()
  })

  it('two keys - are independent of each other', () => {
    const { admit, limits } = start({ requestsPerMinute: 1 })
    admit()
    expect(refusal(admit)).not.toBeNull()
    limits.admit({ ...KEY, id: 'b', requestsPerMinute: 1 })
  })

  it('a refused request - is not charged', () => {
    const { admit } = start({ requestsPerMinute: 5, concurrency: 1 })
    const leave = admit()
    for (let i = 0; i < 20; i++) expect(refusal(admit)).not.toBeNull()
    leave(0)
    for (let i = 0; i < 4; i++) admit()(0)
    expect(refusal(admit)?.message).toContain('per minute')
  })
})

describe('KeyLimits - shared by several frontends', () => {
  /** Frontends that receive each other's messages at once, unless told not to. */
  function frontends(count: number, terms: Partial<ApiKey>) {
    const clock = new ManualClock()
    const key = { ...KEY, ...terms }
    const limits = Array.from({ length: count }, (_, i) => new KeyLimits(clock, `f${i}`))
    const join = (one: KeyLimits): void =>
      one.shareWith((news) => {
        for (const other of limits) if (other !== one) other.learn(structuredClone(news))
      })
    for (const one of limits) join(one)
    return { clock, limits, join, admit: (i: number) => limits[i]?.admit(key) ?? (() => undefined) }
  }

  it('concurrency - is counted over all frontends, and each end frees its place for all', () => {
    const { admit } = frontends(2, { concurrency: 2 })
    const leave = admit(0)
    admit(0)
    expect(refusal(() => admit(1))?.message).toContain('2 concurrent requests')
    leave(0)
    admit(1)
    expect(refusal(() => admit(0))?.code).toBe('request.rate_limited')
  })

  it('requests and tokens per minute - are one allowance for all frontends', () => {
    const { admit } = frontends(3, { requestsPerMinute: 3 })
    for (const i of [0, 1, 2]) admit(i)(0)
    for (const i of [0, 1, 2]) expect(refusal(() => admit(i))?.message).toContain('per minute')
    const tokens = frontends(2, { tokensPerMinute: 100 })
    tokens.admit(1)(0)
    tokens.admit(0)(101)
    expect(refusal(() => tokens.admit(1))?.message).toContain('100 tokens per minute')
  })

  it('a frontend that dies - its requests stop counting after three seconds; a live one announces them regularly', async () => {
    const { clock, limits, admit } = frontends(2, { concurrency: 1 })
    admit(0)
    for (let second = 0; second < 10; second++) clock.advance(1_000)
    expect(refusal(() => admit(1))).not.toBeNull()
    limits[0]?.close()
    clock.advance(2_999)
    expect(refusal(() => admit(1))).not.toBeNull()
    clock.advance(1)
    admit(1)
  })

  it('a frontend that starts later - learns what is running and what is left', () => {
    const { clock, limits, join, admit } = frontends(1, { concurrency: 2, requestsPerMinute: 2 })
    admit(0)
    const late = new KeyLimits(clock, 'late')
    limits.push(late)
    join(late)
    limits[0]?.tellAll()
    const key = { ...KEY, concurrency: 2, requestsPerMinute: 2 }
    late.admit(key)
    expect(refusal(() => late.admit(key))?.message).toContain('2 concurrent requests')
    expect(refusal(() => admit(0))?.message).toContain('2 concurrent requests')
  })

  it('messages that are duplicated or lost - are corrected by the next message', () => {
    const clock = new ManualClock()
    const limits = new KeyLimits(clock, 'a')
    const key = { ...KEY, requestsPerMinute: 10 }
    limits.admit(key)(0)
    const news = { from: 'b', keyId: 'a', running: 0, tokens: 0, requestsLeft: 9, tokensLeft: null }
    limits.learn({ ...news, requests: 1 })
    limits.learn({ ...news, requests: 1 })
    // Four requests were announced in messages that are lost.
    limits.learn({ ...news, requests: 6, requestsLeft: 4 })
    for (let i = 0; i < 4; i++) limits.admit(key)(0)
    expect(refusal(() => limits.admit(key))).not.toBeNull()
  })

  const told = {
    from: 'other',
    keyId: 'a',
    running: 0,
    requests: 0,
    tokens: 0,
    requestsLeft: null,
    tokensLeft: null,
  }

  it('another frontend that counts wrongly - delays a key by an hour at most', () => {
    const { limits, admit, clock } = start({ requestsPerMinute: 60, tokensPerMinute: 600 })
    limits.learn({ ...told, requestsLeft: -1e308, tokensLeft: -1e308 })
    limits.learn({ ...told, requests: 1e308, tokens: 1e308 })
    expect(refusal(admit)?.data['retryAfterMs']).toBeLessThanOrEqual(3_601_000)
    clock.advance(3_601_000)
    admit()(0)
  })

  it('a debt that was made here - is paid whatever other frontends announce', () => {
    const { limits, admit, clock } = start({ tokensPerMinute: 60 })
    admit()(60 * 120)
    limits.learn({ ...told, tokensLeft: -60 * 120 })
    clock.advance(3_601_000)
    expect(refusal(admit)?.data['retryAfterMs']).toBeGreaterThan(3_000_000)
  })

  it('messages about ever more keys - the memory for them is bounded', () => {
    const { limits, admit } = start({ concurrency: 1 })
    admit()
    let tellings = 0
    limits.shareWith(() => tellings++)
    for (let i = 0; i < 10_000; i++) limits.learn({ ...told, keyId: `made up ${i}`, running: 1 })
    limits.tellAll()
    expect(tellings).toBeLessThan(5_000)
    expect(refusal(admit)).not.toBeNull()
    expect(parseKeyUseNews({ ...told, keyId: 'x'.repeat(300) })).toBeNull()
  })
})
