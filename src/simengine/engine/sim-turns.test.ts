import { describe, expect, it } from 'vitest'
import type { GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import type { SimEngine } from './sim-engine.ts'
import { collect, requestOf, started, tokensOf } from '../../../test/simengine/started-engine.ts'

describe('SimEngine - turns that end by themselves', () => {
  const turns = { outputTokens: 40, spread: 0.5, toolCalls: 0.5 }
  const asked = (seed: number, maxTokens: number | null, change: Partial<GenerateRequest> = {}) =>
    requestOf(`r${seed}`, 20, maxTokens, { sampling: { seed }, ...change })

  const said = (clock: VirtualClock, engine: SimEngine, request: GenerateRequest) =>
    clock.runUntil(collect(engine, request))

  it('each has a random length around the median; a lower limit cuts it', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { turns })
    const lengths: number[] = []
    for (let seed = 0; seed < 200; seed++) {
      const chunks = await said(clock, engine, asked(seed, 4000))
      lengths.push(tokensOf(chunks).length)
      expect(chunks.at(-1)?.finish).toBe('eos')
    }
    const sorted = lengths.toSorted((a, b) => a - b)
    expect(sorted[100]).toBeGreaterThan(33)
    expect(sorted[100]).toBeLessThan(48)
    expect(new Set(lengths).size).toBeGreaterThan(40)
    const [seed, length] = [7, lengths[7] ?? 0]
    for (const [limit, finish] of [
      [length - 1, 'length'],
      [length, 'eos'],
      [null, 'eos'],
    ] as const) {
      const chunks = await said(clock, engine, asked(seed, limit))
      const expected = Math.min(length, limit ?? length)
      expect([chunks.at(-1)?.finish, tokensOf(chunks).length]).toEqual([finish, expected])
    }
  })

  it('min_tokens and ignore_eos apply; a migrated turn ends where it would have ended', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, { turns })
    const request = asked(3, 4000)
    const whole = tokensOf(await said(clock, engine, request))
    const least = asked(3, 4000, { stop: { maxTokens: 4000, minTokens: 300 } })
    expect(tokensOf(await said(clock, engine, least))).toHaveLength(300)
    const all = asked(3, 4000, { stop: { maxTokens: 400, ignoreEos: true } })
    expect(tokensOf(await said(clock, engine, all))).toHaveLength(400)
    const tokenIds = Uint32Array.from([...request.tokenIds, ...whole.slice(0, 5)])
    const rest = { ...request, tokenIds, resumedTokens: 5 }
    expect(tokensOf(await said(clock, engine, rest))).toEqual(whole.slice(5))
  })

  it('with tools - about half of the turns generate a text of the grammar', async () => {
    const clock = new VirtualClock()
    const engine = await started(clock, {
      turns,
      guidedScript: () => [7, 8, 9],
    })
    let calls = 0
    for (let seed = 0; seed < 200; seed++) {
      const request = asked(seed, 4000, { extra: { callGrammar: 'root ::= "x"' } })
      const chunks = await said(clock, engine, request)
      expect(chunks.at(-1)?.finish).toBe('eos')
      if (tokensOf(chunks).join() === '7,8,9') calls += 1
    }
    expect(calls).toBeGreaterThan(75)
    expect(calls).toBeLessThan(125)
  })
})
