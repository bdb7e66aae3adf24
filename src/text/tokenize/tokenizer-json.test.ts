import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byteFallbackModel } from '../../../test/gguf/vocabularies.ts'
import { randomTexts, UNKIND_TEXTS } from '../../../test/text/unkind-texts.ts'
import { libraryPipeline } from './hugging-face-library.ts'
import { LibraryTokenizer } from './library-tokenizer.ts'
import { SpmTokenizer } from './spm-tokenizer.ts'
import { tokenizerFromJson } from './tokenizer-json.ts'
import type { Tokenizer } from './tokenizer.ts'

const MODEL = new URL('../../../models/storyteller/', import.meta.url)
const readJson = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(name, MODEL), 'utf8')) as Record<string, unknown>
const json = readJson('tokenizer.json')
const config = readJson('tokenizer_config.json')
const tokenizer = tokenizerFromJson({ json, config })
const SEED = 4711

interface LibraryEncode {
  encode(text: string): { readonly ids: readonly number[] }
}

const CONTROL_TOKENS = ['<unk>', '<s>', '</s>'].map((content, id) => ({
  id,
  content,
  special: true,
}))
const BOS_FIRST = {
  type: 'TemplateProcessing',
  single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  pair: [],
  special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
}
const ROLES = { bos_token: '<s>', eos_token: '</s>' }

const REPLACE = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
const PREPEND = { type: 'Prepend', prepend: '▁' }
const metaspace = (prepend_scheme: string) => ({
  normalizer: null,
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme, split: false },
})
const BLANK_STYLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'prepend and replace': {
    normalizer: { type: 'Sequence', normalizers: [PREPEND, REPLACE] },
    pre_tokenizer: null,
  },
  replace: { normalizer: REPLACE, pre_tokenizer: null },
  'metaspace first': metaspace('first'),
  'metaspace always': metaspace('always'),
  'metaspace never': metaspace('never'),
}

/** A vocabulary that only the library can do. */
const UNIGRAM = {
  added_tokens: CONTROL_TOKENS,
  ...metaspace('always'),
  post_processor: BOS_FIRST,
  decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
  model: {
    type: 'Unigram',
    unk_id: 0,
    vocab: [
      ['<unk>', 0],
      ['<s>', 0],
      ['</s>', 0],
      ...['▁', ...'helowrd<>/s'.split(''), '▁hello', '▁wor', 'ld'].map((name, i) => [
        name,
        -10 + i / 2,
      ]),
    ],
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

  it('any text - is restored from its ids', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        expect(roundTrips(tokenizer, text)).toBe(true)
      }),
    )
    for (const text of UNKIND_TEXTS) expect(roundTrips(tokenizer, text)).toBe(true)
  })

  it('a long line without blanks - same ids as the library, in short time', () => {
    const library = libraryPipeline(json, config) as unknown as LibraryEncode
    const text = 'abcdefghijklmnop'.repeat(60)
    expect([...tokenizer.encode(text, { special: false })]).toEqual(library.encode(text).ids)
    expect(tokenizer.encode('q'.repeat(200_000), { special: false }).length).toBeGreaterThan(1000)
  })

  it('control tokens in user text - are plain characters unless requested', () => {
    const text = '<|im_start|>system<|im_end|>'
    const plain = tokenizer.encode(text, { special: false })
    expect([...plain].some((id) => tokenizer.isSpecial(id))).toBe(false)
    expect(tokenizer.decode(plain)).toBe(text)
    expect([...tokenizer.encode(text, { special: true })].filter((id) => id < 3)).toEqual([1, 2])
  })

  it('literal ranges - a control token that overlaps one is plain text', () => {
    const text = '<|im_end|><|im_end|><|im_end|>'
    const ids = tokenizer.encode(text, { special: true, literalRanges: [10, 11] })
    expect([...ids].filter((id) => id === 2)).toHaveLength(2)
    expect(tokenizer.decode(ids)).toBe(text)
  })

  it('the same text twice, with a cache overflow in between - the same ids', () => {
    const text = 'The brave fox named Mira lives in the forest.'
    const first = tokenizer.encode(text, { special: false })
    for (let i = 0; i < 50_000; i++) tokenizer.encode(`w${i.toString(36)}`, { special: false })
    expect(tokenizer.encode(text, { special: false })).toEqual(first)
  })

  it('ids - names and bytes; empty for unknown ids', () => {
    expect(tokenizer.vocabSize).toBe(2048)
    expect(tokenizer.isSpecial(2)).toBe(true)
    expect(tokenizer.tokenBytes(2)).toHaveLength(0)
    expect(Buffer.from(tokenizer.tokenBytes(3)).toString()).toBe('<think>')
    expect(tokenizer.tokenBytes(999_999)).toHaveLength(0)
    expect(tokenizer.decode([2, 999_999])).toBe('<|im_end|>')
    expect(tokenizer.decode([2], { skipSpecialTokens: true })).toBe('')
  })
})

describe('tokenizerFromJson, SentencePiece-like BPE', () => {
  const texts = [...UNKIND_TEXTS, ...randomTexts(SEED, 200)]
  const model = byteFallbackModel(texts)
  const jsonOf = (style: string) => ({
    added_tokens: CONTROL_TOKENS,
    post_processor: BOS_FIRST,
    decoder: null,
    model,
    ...BLANK_STYLES[style],
  })

  it.each(Object.keys(BLANK_STYLES))(
    '%s - uses our own code, with the ids of the library',
    (style) => {
      const own = tokenizerFromJson({ json: jsonOf(style), config: ROLES })
      expect(own).toBeInstanceOf(SpmTokenizer)
      const library = new LibraryTokenizer(jsonOf(style), ROLES, own.addedTokens, own)
      for (const text of texts) {
        for (const special of [true, false]) {
          expect([...own.encode(text, { special })]).toEqual([...library.encode(text, { special })])
        }
        // A `▁` in user text becomes a blank, as in every such vocabulary.
        if (!text.includes('▁')) expect(roundTrips(own, text.trimStart())).toBe(true)
      }
      expect(own).toMatchObject({ addsBos: true, bosTokenId: 1, eosTokenIds: [2] })
      expect([...own.encode('x', { special: false, addBos: true })][0]).toBe(1)
    },
  )
})

describe('tokenizerFromJson, other kinds', () => {
  const unigram = tokenizerFromJson({ json: UNIGRAM, config: ROLES })

  it('Unigram - uses the library; control tokens in user text stay text', () => {
    expect(unigram).toBeInstanceOf(LibraryTokenizer)
    const names = (text: string) =>
      [...unigram.encode(text, { special: false })].map((id) => unigram.tokenName(id))
    expect(names('hello world')).toEqual(['▁hello', '▁wor', 'ld'])
    expect(names('<s>')).not.toContain('<s>')
    for (const text of ['hello world', '<s>hello</s>', ''])
      expect(roundTrips(unigram, text)).toBe(true)
    expect([...unigram.encode('<s>hello', { special: true })][0]).toBe(1)
  })
})

describe('tokenizerFromJson, byte-level BPE with steps that only the library has', () => {
  const { pretokenizers } = json['pre_tokenizer'] as { readonly pretokenizers: readonly object[] }
  const [split, byteLevel] = pretokenizers
  const preTokenizer = (...parts: readonly unknown[]) => ({
    pre_tokenizer: { type: 'Sequence', pretokenizers: parts },
  })

  it.each([
    ['a cut at punctuation', preTokenizer({ type: 'Punctuation' }, split, byteLevel)],
    ['an inverted cut', preTokenizer({ ...split, behavior: 'Removed', invert: true }, byteLevel)],
    ['a list of normalizers', { normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC' }] } }],
    ['no decoder', { ...preTokenizer({ type: 'Punctuation' }, split, byteLevel), decoder: null }],
  ])('%s - the text is restored from its ids', (_name, change) => {
    const own = tokenizerFromJson({ json: { ...json, ...change }, config })
    expect(own).toBeInstanceOf(LibraryTokenizer)
    for (const text of ['Ünïcödé 日本 👨‍👩‍👧, naïve.\n  end', ' <|im_end|> <think>'])
      expect(roundTrips(own, text)).toBe(true)
  })

  it('a blank that is put before every text - stays, as in the Python library', () => {
    const prefixing = { ...byteLevel, add_prefix_space: true }
    const own = tokenizerFromJson({ json: { ...json, ...preTokenizer(split, prefixing) }, config })
    expect(own).toBeInstanceOf(LibraryTokenizer)
    expect(own.decode(own.encode('é', { special: false }))).toBe(' é')
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
