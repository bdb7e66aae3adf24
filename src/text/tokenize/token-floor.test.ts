import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byteFallbackModel } from '../../../test/gguf/vocabularies.ts'
import { randomTexts, UNKIND_TEXTS } from '../../../test/text/unkind-texts.ts'
import { isLongerThan, TokenFloor } from './token-floor.ts'
import { tokenizerFromJson } from './tokenizer-json.ts'
import type { Tokenizer } from './tokenizer.ts'

const MODEL = new URL('../../../models/storyteller/', import.meta.url)
const readJson = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(name, MODEL), 'utf8')) as Record<string, unknown>
const json = readJson('tokenizer.json')
const config = readJson('tokenizer_config.json')

const UNIQUE_TEXTS = [...UNKIND_TEXTS, ...randomTexts(4711, 200)]
const TOKENIZERS: Readonly<Record<string, Tokenizer>> = {
  'byte-level BPE': tokenizerFromJson({ json, config }),
  'byte-level BPE with NFC': tokenizerFromJson({
    json: { ...json, normalizer: { type: 'NFC' } },
    config,
  }),
  SentencePiece: tokenizerFromJson({
    json: {
      added_tokens: ['<unk>', '<s>', '</s>'].map((content, id) => ({ id, content, special: true })),
      decoder: null,
      normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      pre_tokenizer: null,
      model: byteFallbackModel(UNIQUE_TEXTS),
    },
    config: { bos_token: '<s>', eos_token: '</s>' },
  }),
}
const SEED = Date.now() % 1e9

describe.each(Object.entries(TOKENIZERS))('TokenFloor of %s', (_name, tokenizer) => {
  const floor = new TokenFloor(tokenizer)
  const actual = (text: string): number => tokenizer.encode(text, { special: true }).length

  it(`any text, seed ${SEED} - has at least so many tokens`, () => {
    const kelvin = '\u212A\u037E\u1FEF'.repeat(400)
    const marks = 'a\u0323\u0302e\u0301\u1100\u1161\u11A8'.repeat(200)
    for (const text of [...UNKIND_TEXTS, ...randomTexts(SEED, 200), kelvin, marks]) {
      expect(floor.atLeast(text, Infinity)).toBeLessThanOrEqual(actual(text))
      const long = text.repeat(50)
      expect(floor.atLeast(long, Infinity)).toBeLessThanOrEqual(actual(long))
    }
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        expect(floor.atLeast(text, Infinity)).toBeLessThanOrEqual(actual(text))
      }),
    )
  })

  it.each([
    ['words', 'the little fox said hello to 12 birds. '],
    ['one letter', 'a'],
    ['blanks', ' '],
    ['signs', '=-'],
    ['digits', '7'],
    ['another script', '世界'],
  ])('40 MiB of %s - are known not to fit, and few of them are looked at', (_kind, unit) => {
    const text = unit.repeat((40 * 1024 * 1024) / unit.length)
    let looked = 0
    const spy = {
      length: text.length,
      charCodeAt: (at: number) => ((looked = at), text.charCodeAt(at)),
    }
    expect(floor.atLeast(spy as string, 8_192)).toBeGreaterThan(8_192)
    expect(looked).toBeLessThan(2 * 1024 * 1024)
  })
})

describe('TokenFloor', () => {
  it('an unknown kind of tokenizer - gives no bound', () => {
    const known = TOKENIZERS['byte-level BPE']!
    const unknown = Object.create(known, {
      isByteExact: { value: undefined },
      tokenName: { value: () => 'name' },
    }) as Tokenizer
    expect(new TokenFloor(unknown).atLeast('a'.repeat(1e6), 10)).toBe(0)
  })

  it.each([
    [
      'WordPiece',
      { type: 'WordPiece', unk_token: '[UNK]', vocab: { '[UNK]': 0, fox: 1, '##es': 2 } },
      5,
    ],
    [
      'Unigram',
      {
        type: 'Unigram',
        unk_id: 0,
        vocab: [
          ['<unk>', 0],
          ['▁fo', -1],
          ['xes', -1],
        ],
      },
      5,
    ],
  ])('%s - has no floor, but so many characters at most', (_name, model, longest) => {
    const tokenizer = tokenizerFromJson({
      json: {
        added_tokens: [],
        normalizer: null,
        pre_tokenizer: null,
        post_processor: null,
        decoder: null,
        model,
      },
      config: {},
    })
    const floor = new TokenFloor(tokenizer)
    expect(floor.atLeast('a'.repeat(1e6), 10)).toBe(0)
    expect(floor.charactersMost(100)).toBe(100 * longest)
  })

  it.each([
    ['below', 'a'.repeat(99), false],
    ['at', 'a'.repeat(100), false],
    ['above', 'a'.repeat(101), true],
    ['blanks in a row are one', `${'a'.repeat(99)}${' \n\t'.repeat(1000)}`, false],
    ['and one character more', `${'a'.repeat(99)}${' '.repeat(1000)}b`, true],
  ])('characters of a text: %s', (_name, text, isLonger) => {
    expect(isLongerThan(text, 100)).toBe(isLonger)
  })

  it('a vocabulary that lacks a byte - gives no bound for that kind', () => {
    const names = ['a', 'b', 'aaaa', '1']
    const lacking = {
      isByteExact: true,
      vocabSize: names.length,
      addedTokens: [],
      tokenBytes: (id: number) => new TextEncoder().encode(names[id]),
    } as unknown as Tokenizer
    expect(new TokenFloor(lacking).atLeast('a'.repeat(1e6), 10)).toBe(0)
  })
})
