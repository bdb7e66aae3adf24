import { describe, expect, it } from 'vitest'
import { finishChunk, tokenChunk, usageOf } from './chunk.ts'

const MAX_U32 = 4294967295

describe('usageOf', () => {
  it('total - is the sum', () => {
    expect(usageOf(3, 4)).toEqual({ promptTokens: 3, completionTokens: 4, totalTokens: 7 })
    expect(usageOf(0, 0).totalTokens).toBe(0)
  })

  it.each([
    [MAX_U32 - 1, 0, MAX_U32 - 1],
    [MAX_U32 - 1, 1, MAX_U32],
    [MAX_U32 - 1, 2, MAX_U32],
    [MAX_U32, 1, MAX_U32],
    [MAX_U32, MAX_U32, MAX_U32],
  ])('total of %i and %i - saturates, the parts stay', (prompt, completion, total) => {
    expect(usageOf(prompt, completion)).toEqual({
      promptTokens: prompt,
      completionTokens: completion,
      totalTokens: total,
    })
  })

  it('cached tokens - are present if given, also if 0', () => {
    expect(usageOf(3, 4, 0)).toHaveProperty('cachedTokens', 0)
    expect(usageOf(3, 4)).not.toHaveProperty('cachedTokens')
  })
})

describe('tokenChunk, finishChunk', () => {
  it('token - one id, not terminal, nothing else', () => {
    expect(tokenChunk(5)).toEqual({ tokenIds: [5] })
  })

  it('a finish chunk - is terminal, without tokens unless given', () => {
    expect(finishChunk('stop')).toEqual({ tokenIds: [], finish: 'stop' })
    expect(finishChunk('length', { tokenIds: [1, 2], usage: usageOf(1, 2) })).toEqual({
      tokenIds: [1, 2],
      finish: 'length',
      usage: { promptTokens: 1, completionTokens: 2, totalTokens: 3 },
    })
  })
})
