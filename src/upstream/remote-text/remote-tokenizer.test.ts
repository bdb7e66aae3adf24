import { describe, expect, it } from 'vitest'
import { RemoteTokenizer } from './remote-tokenizer.ts'

function tokenizerOf(knowsPlainText: boolean): { tokenizer: RemoteTokenizer; asked: string[] } {
  const asked: string[] = []
  const tokenizer = new RemoteTokenizer({
    vocabSize: 10,
    bosTokenId: null,
    eosTokenIds: [],
    addedTokens: [{ id: 1, text: '<s>', control: true }],
  })
  tokenizer.addSource({
    knowsPlainText,
    encode: async (text) => {
      asked.push(text)
      return Array.from(text, () => ({ id: 2, bytes: null }))
    },
    decode: async () => '',
  })
  return { tokenizer, asked }
}

describe('a tokenizer that only the server has', () => {
  it('a text of more tokens than a call can have arguments - is encoded', async () => {
    const { tokenizer } = tokenizerOf(true)
    const ids = await tokenizer.encodeThere('x'.repeat(300_000), { special: false })
    expect(ids.length).toBe(300_000)
  })

  it('names of control tokens in a text - are split up to their limit, more are refused before the server is asked', async () => {
    const { tokenizer, asked } = tokenizerOf(false)
    const ids = await tokenizer.encodeThere('<s>'.repeat(1_024), { special: false })
    expect(ids.length).toBe(3 * 1_024)
    expect(asked.filter((text) => text.includes('<s>'))).toEqual([])
    const before = asked.length
    for (const count of [1_025, 300_000]) {
      const encoded = tokenizer.encodeThere('<s>'.repeat(count), { special: false })
      await expect(encoded).rejects.toMatchObject({ code: 'request.invalid_argument' })
    }
    expect(asked.length).toBe(before)
  })
})
