import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anthropicModelObject, utcText } from './model-list.ts'

describe('utcText', () => {
  it("any second until 9999 - same as the platform's conversion", () => {
    const edges = [0, 951_782_399, 951_782_400, 4_107_542_399, 4_107_542_400, 253_402_300_799]
    const same = (seconds: number): void => {
      expect(utcText(seconds)).toBe(new Date(seconds * 1000).toISOString().replace('.000', ''))
    }
    edges.forEach(same)
    fc.assert(fc.property(fc.integer({ min: 0, max: 253_402_300_799 }), same))
  })
})

it("a model in Anthropic's format - includes the context length if known", () => {
  const entry = { name: 'm', createdSeconds: 0 }
  const known = { lifecycle: 'active', max_input_tokens: 4096, max_tokens: 4096 }
  expect(anthropicModelObject({ ...entry, contextLength: 4096 })).toMatchObject({
    id: 'm',
    ...known,
  })
  expect(anthropicModelObject(entry)).not.toHaveProperty('max_input_tokens')
})
