import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomInt, seededRandom } from '../../base/index.ts'
import { alphabetToBytes } from '../tokenize/byte-alphabet.ts'
import { decodeTokens } from '../tokenize/decode-tokens.ts'
import { Detokenizer } from './detokenizer.ts'
import type { Tokenizer } from '../tokenize/tokenizer.ts'

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/text-stream.json', import.meta.url), 'utf8'),
) as { detokenize: { name: string; tokens: (string | null)[]; deltas: string[] }[] }

/** Id n is the n-th of the given byte strings; names in `<|…|>` are control tokens. */
function tokenizerOf(pieces: readonly (Uint8Array | string)[]): Tokenizer {
  const isControl = (id: number): boolean => typeof pieces[id] === 'string'
  const tokenizer: Tokenizer = {
    vocabSize: pieces.length,
    bosTokenId: null,
    eosTokenIds: [],
    addsBos: false,
    addedTokens: pieces.flatMap((text, id) =>
      typeof text === 'string' ? [{ id, text, control: true }] : [],
    ),
    encode: () => new Uint32Array(0),
    tokenBytes(id) {
      const piece = pieces[id]
      return typeof piece === 'string' || piece === undefined ? new Uint8Array(0) : piece
    },
    isSpecial: isControl,
    tokenName(id) {
      const piece = pieces[id]
      return typeof piece === 'string' ? piece : ''
    },
    decode: (ids, options) => decodeTokens(tokenizer, ids, options?.skipSpecialTokens ?? false),
  }
  return tokenizer
}

function pushAll(detokenizer: Detokenizer, count: number): string[] {
  const texts = Array.from({ length: count }, (_, id) => detokenizer.push(id))
  return [...texts, detokenizer.flush()]
}

describe('Detokenizer', () => {
  it.each(vectors.detokenize)('recorded $name - same text', ({ tokens, deltas }) => {
    const pieces = tokens.map((name) => {
      if (name === null) return new Uint8Array(0)
      return name.startsWith('<|') ? name : (alphabetToBytes(name) ?? name)
    })
    const texts = pushAll(new Detokenizer(tokenizerOf(pieces)), pieces.length)
    expect(texts.join('')).toBe(deltas.join(''))
  })

  it('text in pieces of any number of bytes - joins to the text, and no push ends inside a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer(), (text, seed) => {
        const random = seededRandom(seed)
        const bytes = Buffer.from(text)
        const pieces: Uint8Array[] = []
        for (let at = 0; at < bytes.length;) {
          const length = 1 + randomInt(random, 5)
          pieces.push(new Uint8Array(bytes.subarray(at, at + length)))
          at += length
        }
        const texts = pushAll(new Detokenizer(tokenizerOf(pieces)), pieces.length)
        expect(texts.join('')).toBe(bytes.toString())
        if (!text.includes('\uFFFD')) expect(texts.join('')).not.toContain('\uFFFD')
      }),
    )
  })

  it('random bytes - same result as decoding them at once', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 5 }), { maxLength: 12 }), (pieces) => {
        const tokenizer = tokenizerOf(pieces)
        const ids = pieces.map((_, id) => id)
        expect(pushAll(new Detokenizer(tokenizer), pieces.length).join('')).toBe(
          tokenizer.decode(ids),
        )
      }),
    )
  })

  it('control tokens - omitted, kept if requested, or kept by name', () => {
    const tokenizer = tokenizerOf([Buffer.from('a'), '<|call|>', Buffer.from('b'), '<|end|>'])
    const text = (options: ConstructorParameters<typeof Detokenizer>[1]): string =>
      pushAll(new Detokenizer(tokenizer, options), 4).join('')
    expect(text({})).toBe('ab')
    expect(text({ skipSpecialTokens: false })).toBe('a<|call|>b<|end|>')
    expect(text({ keepTokens: ['<|call|>', '<|unknown|>'] })).toBe('a<|call|>b')
  })

  it('ids outside the vocabulary - give no text and no error', () => {
    const detokenizer = new Detokenizer(tokenizerOf([Buffer.from('a')]))
    expect([5, 2 ** 31, -1].map((id) => detokenizer.push(id)).join('')).toBe('')
  })
})
