import { availableParallelism } from 'node:os'
import { describe, expect, it } from 'vitest'
import { compileLlamaCppOptions } from './llamacpp-options.ts'
import type { KvType } from './llamacpp-options.ts'

const modelPath = 'model.gguf'

describe('options of the llama.cpp engine', () => {
  it.each(['q4_0', 'q8_0'] as const)(
    'kvType %s - needs flash attention, because otherwise llama.cpp would report a lack of memory',
    (kvType) => {
      expect(() => compileLlamaCppOptions({ modelPath, kvType, flashAttention: false })).toThrow(
        `supports kvType ${kvType} only with flash attention`,
      )
      expect(compileLlamaCppOptions({ modelPath, kvType }).kvType).toBe(kvType)
    },
  )

  it.each(['f16', 'bf16', 'f32'] satisfies KvType[])(
    'kvType %s - works with and without',
    (kvType) => {
      for (const flashAttention of [true, false])
        expect(compileLlamaCppOptions({ modelPath, kvType, flashAttention }).kvType).toBe(kvType)
    },
  )

  it.each([
    ['below the least', 63, false],
    ['the least', 64, true],
    ['the most', 65_536, true],
    ['above the most', 65_537, false],
  ])('microBatch - %s', (_what, microBatch, isTaken) => {
    const compile = (): unknown => compileLlamaCppOptions({ modelPath, microBatch })
    if (isTaken) expect(compile()).toMatchObject({ microBatch })
    else expect(compile).toThrow('microBatch must be a whole number from 64 to 65536')
  })

  it('more than two threads per core - are refused, because llama.cpp would hardly get on', () => {
    const most = Math.max(2, 2 * availableParallelism())
    expect(compileLlamaCppOptions({ modelPath, threads: most }).threads).toBe(most)
    expect(() => compileLlamaCppOptions({ modelPath, threads: most + 1 })).toThrow(
      /threads is \d+, but/,
    )
  })
})
