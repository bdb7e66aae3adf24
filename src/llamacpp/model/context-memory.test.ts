import { describe, expect, it } from 'vitest'
import type { GgufHeader } from '../../text/index.ts'
import { contextFault, kvElementsOf } from './context-memory.ts'

const HEADS = { keyLength: 64, valueLength: 64 }
const LLAMA: GgufHeader['values'] = new Map<string, number>([
  ['llama.block_count', 4],
  ['llama.attention.head_count', 8],
  ['llama.attention.head_count_kv', 2],
])

describe('memory of a context', () => {
  it('elements per token - are those of K and V of all layers', () => {
    expect(kvElementsOf('llama', LLAMA, HEADS)).toBe(4 * 2 * 128)
    const withoutGroups = new Map(LLAMA)
    withoutGroups.delete('llama.attention.head_count_kv')
    expect(kvElementsOf('llama', withoutGroups, HEADS)).toBe(4 * 8 * 128)
  })

  it('a model of which only some layers have attention - is not known', () => {
    const perLayer = new Map(LLAMA).set('llama.attention.head_count_kv', [2, 0, 2, 0])
    expect(kvElementsOf('llama', perLayer, HEADS)).toBeUndefined()
    expect(
      kvElementsOf('llama', new Map(LLAMA).set('llama.ssm.state_size', 16), HEADS),
    ).toBeUndefined()
    expect(kvElementsOf('llama', LLAMA, { keyLength: undefined, valueLength: 64 })).toBeUndefined()
  })

  it('a context that does not fit - is named with its size; one that fits and one of unknown size pass', () => {
    const shape = { sequences: 8, contextLength: 1_000_000, kvType: 'f16' } as const
    expect(contextFault(shape, 1024, 16e9)).toContain('8 sequences of 1000000 tokens needs 16.4 GB')
    expect(contextFault(shape, 1024, 17e9)).toBeNull()
    expect(contextFault({ ...shape, kvType: 'q8_0' }, 1024, 16e9)).toBeNull()
    expect(contextFault(shape, undefined, 0)).toBeNull()
  })
})
