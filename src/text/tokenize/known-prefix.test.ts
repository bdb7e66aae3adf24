/**
 * A tokenizer that has seen a conversation before, in whatever form, gives the ids of one that has seen nothing, at
 * once and in steps between which it encodes other texts.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { byteFallbackModel } from '../../../test/gguf/vocabularies.ts'
import { randomTexts } from '../../../test/text/unkind-texts.ts'
import { randomInt, seededRandom } from '../../base/index.ts'
import { tokenizerFromJson } from './tokenizer-json.ts'
import type { EncodeOptions, Tokenizer } from './tokenizer.ts'

const readJson = (name: string): Record<string, unknown> =>
  JSON.parse(
    readFileSync(new URL(`../../../models/storyteller/${name}`, import.meta.url), 'utf8'),
  ) as Record<string, unknown>
const bpe = { json: readJson('tokenizer.json'), config: readJson('tokenizer_config.json') }
const SEED = Number(process.env['BATON_FUZZ_SEED'] ?? Date.now() % 1e9)
const CONVERSATIONS = Number(process.env['BATON_FUZZ_ROUNDS'] ?? 15)

const controls = ['<unk>', '<s>', '</s>'].map((content, id) => ({ id, content, special: true }))
const letters = 'abcdefghijklmnopqrstuvwxyz.,!?\n'.split('')
const unigram = {
  added_tokens: controls,
  post_processor: null,
  normalizer: null,
  pre_tokenizer: {
    type: 'Metaspace',
    replacement: '▁',
    prepend_scheme: 'first',
    split: false,
  },
  decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first' },
  model: {
    type: 'Unigram',
    unk_id: 0,
    vocab: [
      ...['<unk>', '<s>', '</s>'].map((name) => [name, 0]),
      ...['▁', ...letters, 'the', '▁a', 'er', 'st'].map((name, i) => [name, -2 - i / 10]),
    ],
  },
}
const KINDS: Readonly<
  Record<string, { readonly make: () => Tokenizer; readonly turn: readonly string[] }>
> = {
  'byte-level BPE': {
    make: () => tokenizerFromJson(bpe),
    turn: ['<|im_start|>user\n', '<|im_end|>\n'],
  },
  'byte-level BPE with NFC': {
    make: () => tokenizerFromJson({ ...bpe, json: { ...bpe.json, normalizer: { type: 'NFC' } } }),
    turn: ['<|im_start|>user\n', '<|im_end|>\n'],
  },
  SentencePiece: { make: () => spm('always'), turn: ['<s>', '</s>'] },
  'SentencePiece, a blank where the text begins': {
    make: () => spm('first'),
    turn: ['<s>', '</s>'],
  },
  Unigram: { make: () => tokenizerFromJson({ json: unigram }), turn: ['<s>', '</s>'] },
}

const model = byteFallbackModel(randomTexts(SEED, 100))

function spm(scheme: string): Tokenizer {
  return tokenizerFromJson({
    json: {
      added_tokens: controls,
      normalizer: null,
      pre_tokenizer: {
        type: 'Metaspace',
        replacement: '▁',
        prepend_scheme: scheme,
        split: false,
      },
      model,
    },
  })
}

describe.each(Object.entries(KINDS))('a known prefix: %s', (_, { make, turn }) => {
  it(`random conversations, changed and cut anywhere, seed ${SEED} - the ids of a new tokenizer`, () => {
    const random = seededRandom(SEED)
    const known = make()
    const stories = randomTexts(SEED, 60).map((text, i) =>
      `${text} story ${i} `.repeat(1 + Math.ceil(randomInt(random, 12_000) / (text.length + 9))),
    )
    const story = (): string => stories[randomInt(random, stories.length)] ?? ''
    for (let round = 0; round < CONVERSATIONS; round++) {
      let text = ''
      // Some templates write no control tokens, and then a conversation is one stretch that becomes longer.
      const [open = '', close = ''] = randomInt(random, 3) === 0 ? ['User: '] : turn
      for (let i = 0; i < 3; i++) {
        text += open + change(story(), randomInt(random, 6)) + close
        const at = randomInt(random, text.length)
        const prompts = [text, `${text}${open}`, text.slice(0, at), text.slice(at)]
        const prompt = prompts[randomInt(random, prompts.length)] ?? ''
        const options = {
          special: randomInt(random, 4) > 0,
          addBos: randomInt(random, 2) > 0,
          literalRanges: randomInt(random, 3) > 0 ? [] : [at, at + 1 + randomInt(random, 40)],
        }
        known.encode(text, options)
        const expected = make().encode(prompt, options)
        expect(known.encode(prompt, options)).toEqual(expected)
        for (const other of [known, make()]) {
          expect(
            encodedInSteps(other, prompt, options, () => other.encode(story(), options)),
          ).toEqual(expected)
        }
      }
    }
  })
})

/** `between` is called after each step. */
function encodedInSteps(
  tokenizer: Tokenizer,
  text: string,
  options: EncodeOptions,
  between: () => void,
): Uint32Array {
  const steps = tokenizer.encodeInSteps?.(text, options)
  if (steps === undefined || steps === null) return tokenizer.encode(text, options)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
    between()
  }
}

/** What clients do to an earlier turn. */
function change(text: string, how: number): string {
  if (how === 0) return text.trimEnd()
  if (how === 1) return ` ${text}`
  if (how === 2) return `${text}\n`
  if (how === 3) return text.replace(' ', '  ')
  return text
}
