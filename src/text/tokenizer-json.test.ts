import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomTexts, UNKIND_TEXTS } from '../../test/text/unkind-texts.ts'
import { libraryPipeline } from './hugging-face-library.ts'
import { tokenizerFromJson } from './tokenizer-json.ts'
import type { Tokenizer } from './tokenizer.ts'

const MODEL = new URL('../../models/storyteller/', import.meta.url)
const readJson = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(name, MODEL), 'utf8')) as Record<string, unknown>
const json = readJson('tokenizer.json')
const config = readJson('tokenizer_config.json')
const tokenizer = tokenizerFromJson({ json, config })
const SEED = 4711

interface LibraryEncode {
  encode(text: string): { readonly ids: readonly number[] }
}

/** A small vocabulary of the kind that SentencePiece models have in a `tokenizer.json`. */
const BYTE_FALLBACK = {
  version: '1.0',
  added_tokens: [
    { id: 0, content: '<unk>', special: true },
    { id: 1, content: '<s>', special: true },
    { id: 2, content: '</s>', special: true },
  ],
  normalizer: {
    type: 'Sequence',
    normalizers: [
      { type: 'Prepend', prepend: '▁' },
      { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    ],
  },
  pre_tokenizer: null,
  post_processor: {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    pair: [],
    special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
  },
  decoder: {
    type: 'Sequence',
    decoders: [
      { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' },
      { type: 'Fuse' },
      { type: 'Strip', content: ' ', start: 1, stop: 0 },
    ],
  },
  model: {
    type: 'BPE',
    unk_token: '<unk>',
    byte_fallback: true,
    fuse_unk: true,
    vocab: Object.fromEntries(
      [
        '<unk>',
        '<s>',
        '</s>',
        ...Array.from(
          { length: 256 },
          (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`,
        ),
        ...'▁helowrd<>/s'.split(''),
        '▁h',
        'el',
        'lo',
        '▁hel',
        '▁hello',
      ].map((name, id) => [name, id]),
    ),
    merges: ['▁ h', 'e l', 'l o', '▁h el', '▁hel lo'],
  },
}

function roundTrips(of: Tokenizer, text: string): boolean {
  const expected = text.replace(/\p{Surrogate}/gu, '\uFFFD')
  return of.decode(of.encode(text, { special: false })) === expected
}

describe('tokenizerFromJson, byte-level BPE', () => {
  it(`unkind and random texts (seed ${SEED}) - the library's ids`, () => {
    const library = libraryPipeline(json, config) as unknown as LibraryEncode
    for (const text of [...UNKIND_TEXTS, ...randomTexts(SEED, 300)]) {
      if (/\p{Surrogate}/u.test(text)) continue
      expect([...tokenizer.encode(text, { special: true })]).toEqual(library.encode(text).ids)
    }
  })

  it('any text - comes back from its ids', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        expect(roundTrips(tokenizer, text)).toBe(true)
      }),
    )
    for (const text of UNKIND_TEXTS) expect(roundTrips(tokenizer, text)).toBe(true)
  })

  it('a long line without blanks - same ids as the library, in no time', () => {
    const library = libraryPipeline(json, config) as unknown as LibraryEncode
    const text = 'abcdefghijklmnop'.repeat(60)
    expect([...tokenizer.encode(text, { special: false })]).toEqual(library.encode(text).ids)
    expect(tokenizer.encode('q'.repeat(200_000), { special: false }).length).toBeGreaterThan(1000)
  })

  it('control tokens in user text - plain characters unless asked for', () => {
    const text = '<|im_start|>system<|im_end|>'
    const plain = tokenizer.encode(text, { special: false })
    expect([...plain].some((id) => tokenizer.isSpecial(id))).toBe(false)
    expect(tokenizer.decode(plain)).toBe(text)
    expect([...tokenizer.encode(text, { special: true })].filter((id) => id < 3)).toEqual([1, 2])
  })

  it('literal ranges - a control token that touches one is plain', () => {
    const text = '<|im_end|><|im_end|><|im_end|>'
    const ids = tokenizer.encode(text, { special: true, literalRanges: [10, 11] })
    expect([...ids].filter((id) => id === 2)).toHaveLength(2)
    expect(tokenizer.decode(ids)).toBe(text)
  })

  it('the same text twice, and the cache in between overflowing - the same ids', () => {
    const text = 'The brave fox named Mira lives in the forest.'
    const first = tokenizer.encode(text, { special: false })
    for (let i = 0; i < 50_000; i++) tokenizer.encode(`w${i.toString(36)}`, { special: false })
    expect(tokenizer.encode(text, { special: false })).toEqual(first)
  })

  it('ids - names, bytes, and nothing for what does not exist', () => {
    expect(tokenizer.vocabSize).toBe(2048)
    expect(tokenizer.isSpecial(2)).toBe(true)
    expect(tokenizer.tokenBytes(2)).toHaveLength(0)
    expect(Buffer.from(tokenizer.tokenBytes(3)).toString()).toBe('<think>')
    expect(tokenizer.tokenBytes(999_999)).toHaveLength(0)
    expect(tokenizer.decode([2, 999_999])).toBe('<|im_end|>')
    expect(tokenizer.decode([2], { skipSpecialTokens: true })).toBe('')
  })
})

describe('tokenizerFromJson, other kinds', () => {
  const spm = tokenizerFromJson({
    json: BYTE_FALLBACK,
    config: { bos_token: '<s>', eos_token: '</s>' },
  })

  it('SentencePiece-like BPE - ids, bytes and roles', () => {
    expect([...spm.encode('hello', { special: false })].map((id) => spm.tokenName(id))).toEqual([
      '▁hello',
    ])
    expect([...spm.encode('hello', { special: false, addBos: true })][0]).toBe(1)
    expect(spm).toMatchObject({ addsBos: true, bosTokenId: 1, eosTokenIds: [2] })
  })

  it('texts - come back, control tokens in them stay text', () => {
    for (const text of ['hello world', 'é 你好 🎉', '<s>hello</s>', 'a\ud800b', '']) {
      expect(roundTrips(spm, text)).toBe(true)
    }
    expect([...spm.encode('<s>x', { special: false })]).not.toContain(1)
  })
})

describe('tokenizerFromJson, damaged files', () => {
  it.each([
    [null, /not an object/],
    [{}, /model/],
    [{ ...json, model: { ...(json['model'] as object), merges: null } }, /merges/],
    [{ ...json, model: { ...(json['model'] as object), vocab: { a: -1 } } }, /bad id/],
    [{ ...json, added_tokens: [{ content: 'x' }] }, /without an id/],
  ])('case %# - model.load_failed with the reason', (value, reason) => {
    expect(() => tokenizerFromJson({ json: value })).toThrow(
      expect.objectContaining({
        code: 'model.load_failed',
        message: expect.stringMatching(reason),
      }),
    )
  })
})
