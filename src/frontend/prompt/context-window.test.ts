import { describe, expect, it } from 'vitest'
import { storyteller } from '../../../test/frontend/scripted-frontend.ts'
import type { ModelText, Tokenizer } from '../../text/index.ts'
import { countedCharactersMax, refuseEndlessText, refuseHopelessText } from './context-window.ts'

const known = storyteller().tokenizer
/** A tokenizer for which the length of a text gives no lower bound of its tokens. */
const unknown = Object.create(known, {
  isByteExact: { value: undefined },
  vocabSize: { value: 2 },
  addedTokens: { value: [] },
  tokenName: { value: (id: number) => (id === 0 ? 'a' : 'sixteen letters!') },
}) as Tokenizer
const modelOf = (tokenizer: Tokenizer) => ({ tokenizer }) as ModelText
const refuse = (tokenizer: Tokenizer, text: string, contextLength: number | undefined) => () =>
  refuseHopelessText(text, modelOf(tokenizer), contextLength, 'prompt')

describe('a text that cannot fit', () => {
  it.each([100, 4096])('without a lower bound: %i tokens of 16 characters', (contextLength) => {
    const most = 16 * contextLength
    for (const length of [1, contextLength, contextLength + 1, most - 1, most]) {
      expect(refuse(unknown, 'x'.repeat(length), contextLength)).not.toThrow()
    }
    expect(refuse(unknown, 'x'.repeat(most + 1), contextLength)).toThrow(
      `${contextLength} tokens, which hold at most ${most} characters. However, your prompt has ${most + 1}`,
    )
  })

  it.each([
    ['with a floor', known],
    ['without', unknown],
  ])('%s, context length unknown: 4 MiB', (_name, tokenizer) => {
    const most = 4 * 1024 * 1024
    for (const contextLength of [undefined, 0]) {
      expect(refuse(tokenizer, 'x'.repeat(most), contextLength)).not.toThrow()
      expect(refuse(tokenizer, 'x'.repeat(most + 1), contextLength)).toThrow(
        `${most + 1} characters, at most ${most}`,
      )
    }
  })
})

describe('a text that is only counted', () => {
  it.each([
    [undefined, 4 * 1024 * 1024],
    [4096, 1024 * 1024],
    [131_072, 1024 * 1024],
    [131_073, 1_048_584],
    [1_000_000, 8_000_000],
  ])('a context of %s tokens: at, below and above %i characters', (contextLength, limit) => {
    expect(countedCharactersMax(contextLength)).toBe(limit)
    for (const length of [0, limit - 1, limit]) {
      expect(() => refuseEndlessText('x'.repeat(length), contextLength, 'prompt')).not.toThrow()
    }
    expect(() => refuseEndlessText('x'.repeat(limit + 1), contextLength, 'prompt')).toThrow(
      expect.objectContaining({ code: 'request.payload_too_large' }),
    )
  })
})
