import { describe, expect, it } from 'vitest'
import { finishChunk, usageOf } from '../../request/index.ts'
import { AnswerCheck } from './answer-check.ts'

const BLOCK = 16

function compared(forecastTokens: number, cachedTokens: number, promptTokens = 1000): number {
  const check = new AnswerCheck()
  const usage = usageOf(promptTokens, 1, cachedTokens)
  const forecast = {
    phase: 'aggregated',
    promptTokens,
    cachedTokens: forecastTokens,
    isKnown: true,
  }
  check.ended(finishChunk('stop', { usage }), { ...forecast, phase: 'aggregated' }, BLOCK)
  return check.status().forecastsOff
}

describe('AnswerCheck', () => {
  it.each([
    [160, 160, 0],
    [160, 144, 0],
    [160, 176, 0],
    [160, 143, 1],
    [160, 177, 1],
    [0, 800, 1],
    [800, 0, 1],
  ])('forecast %i, cached %i - off: %i', (forecast, cached, off) => {
    expect(compared(forecast, cached)).toBe(off)
  })

  it('a completely cached prompt - its last block is computed again, which is not counted as off', () => {
    expect(compared(160, 144, 160)).toBe(0)
    expect(compared(160, 128, 160)).toBe(0)
    expect(compared(160, 127, 160)).toBe(1)
  })

  it.each([
    ['a worker without events', { isKnown: false }, {}],
    ['an engine that does not tell', {}, { usage: usageOf(1000, 1) }],
    ['a cancelled leg', {}, { finish: 'cancelled' as const }],
  ])('%s - is not compared', (_name, forecast, chunk) => {
    const check = new AnswerCheck()
    check.ended(
      { ...finishChunk('stop', { usage: usageOf(1000, 1, 0) }), ...chunk },
      { phase: 'aggregated', promptTokens: 1000, cachedTokens: 160, isKnown: true, ...forecast },
      BLOCK,
    )
    expect(check.status().forecasts).toBe(0)
  })

  it('decode legs - are counted by what the engine reports about the KV', () => {
    const check = new AnswerCheck()
    const forecast = { phase: 'decode' as const, promptTokens: 9, cachedTokens: 0, isKnown: true }
    for (const engineData of [{ kv_moved: true }, { kv_moved: false }, {}, undefined]) {
      check.ended({ tokenIds: [], finish: 'stop', engineData }, forecast, BLOCK)
    }
    expect(check.status()).toMatchObject({ kvMoved: 1, kvNotMoved: 1, forecasts: 0 })
  })
})
