import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../../test/frontend/scripted-frontend.ts'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import { refusal } from '../../../test/api/refusal.ts'
import { authentication } from '../http/authentication.ts'
import { KeyLimits } from './key-limits.ts'

const PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

/** A key with this limit of tokens per minute; requests run until the test ends them. */
function start(tokensPerMinute: number) {
  const it_: ScriptedFrontend = new ScriptedFrontend({
    script: (run) => void run.routed(),
    options: {
      middleware: [
        authentication({
          clock: { nowMs: () => 0, epochMs: () => 2, after: () => ({ cancel: () => undefined }) },
          keyOf: () => ({ id: 'a', tenant: 't', tokensPerMinute }),
        }),
      ],
    },
  })
  const ask = (max_tokens?: number, more: object = {}) =>
    it_.post(
      '/v1/completions',
      { model: 'storyteller', prompt: PROMPT, max_tokens, ...more },
      { authorization: 'Bearer x' },
    )
  /** Answers the n-th request with this many tokens. */
  const end = (nth: number, tokens: number): void => {
    it_.runs[nth]?.tokens(Array.from({ length: tokens }, () => 300)).ends('length')
  }
  return { it_, ask, end }
}

async function refused(asked: Promise<{ status: number; headers: Record<string, unknown> }>) {
  const { status, headers } = await asked
  return [status, headers['retry-after']]
}

describe('tokens per minute', () => {
  it('two requests that may use exactly the limit, or less - both run', async () => {
    for (const max of [39, 40]) {
      const { it_, ask, end } = start(100)
      const both = [ask(max), ask(max)]
      await expect.poll(() => it_.runs.length).toBe(2)
      end(0, 5)
      end(1, 5)
      expect((await Promise.all(both)).map(({ status }) => status)).toEqual([200, 200])
    }
  })

  it('one token more - the second is 429 with the time after which it fits, and no request runs for it', async () => {
    const { it_, ask, end } = start(100)
    const first = ask(40)
    await expect.poll(() => it_.runs.length).toBe(1)
    // 51 of the 50 unreserved ones: a hundredth of a minute, rounded up to seconds.
    expect(await refused(ask(41))).toEqual([429, '1'])
    expect(await refused(ask(90))).toEqual([429, '30'])
    expect(it_.runs).toHaveLength(1)
    end(0, 5)
    expect((await first).status).toBe(200)
  })

  it('at the end - unused tokens are given back at once', async () => {
    const { it_, ask, end } = start(100)
    const first = ask(90)
    await expect.poll(() => it_.runs.length).toBe(1)
    end(0, 2)
    await first
    // 88 are left: 12 were used.
    expect(await refused(ask(79))).toEqual([429, '1'])
    const second = ask(78)
    await expect.poll(() => it_.runs.length).toBe(2)
    end(1, 1)
    expect((await second).status).toBe(200)
  })

  it('several choices - each reserves its maximum; one that fails or is refused gives all back', async () => {
    const { it_, ask } = start(100)
    const several = { n: 3, temperature: 1 }
    expect((await ask(1, { model: 'nope' })).status).toBe(404)
    const first = ask(30, several)
    await expect.poll(() => it_.runs.length).toBe(3)
    expect(await refused(ask(1))).toEqual([429, '1'])
    for (const run of it_.runs) run.fails('backend.unknown')
    expect((await first).status).toBeGreaterThanOrEqual(500)
    const second = ask(25, several)
    await expect.poll(() => it_.runs.length).toBe(6)
    for (const run of it_.runs.slice(3)) run.ends('length')
    expect((await second).status).toBe(200)
  })

  it("a request that may use more than a minute's allowance - reserves all of it, and its excess is a debt", async () => {
    const { it_, ask, end } = start(20)
    const first = ask(1000)
    await expect.poll(() => it_.runs.length).toBe(1)
    expect(await refused(ask(1))).toEqual([429, '1'])
    end(0, 30)
    expect((await first).status).toBe(200)
    // 40 of 20 were used: the debt is 20, and one token must be available.
    expect(await refused(ask(1))).toEqual([429, '60'])
  })

  it('without max_tokens - 1,024 are reserved per answer', async () => {
    const { it_, ask, end } = start(2000)
    const first = ask()
    await expect.poll(() => it_.runs.length).toBe(1)
    expect(await refused(ask())).toEqual([429, '3'])
    end(0, 1)
    await first
  })
})

describe('KeyLimits - reservations of several frontends', () => {
  it('tokens reserved at one frontend are not available at the others; a frontend that dies reserves nothing', () => {
    const clock = new ManualClock()
    const key = { id: 'a', tenant: 't', tokensPerMinute: 100 }
    const [one, two] = [new KeyLimits(clock, 'one'), new KeyLimits(clock, 'two')]
    one.shareWith((news) => two.learn(structuredClone(news)))
    one.admit(key)
    one.reserve(key, 60)
    two.admit(key)
    expect(refusal(() => two.reserve(key, 41))?.message).toContain('100 tokens per minute')
    two.reserve(key, 40)()
    one.close()
    clock.advance(3_000)
    two.reserve(key, 100)
  })

  it('a frontend of an older version without reservations - nothing is reserved there', () => {
    const limits = new KeyLimits(new ManualClock(), 'a')
    const key = { id: 'a', tenant: 't', tokensPerMinute: 100 }
    const told = { from: 'b', keyId: 'a', running: 1, requests: 1, tokens: 0 }
    limits.learn({ ...told, requestsLeft: null, tokensLeft: 100 })
    limits.reserve(key, 100)
  })
})
