import { describe, expect, it } from 'vitest'
import { randomTexts, UNKIND_TEXTS } from '../../../test/text/unkind-texts.ts'
import { randomInt, seededRandom } from '../../base/index.ts'
import { ggufPreTokenizer } from './gguf-pre-tokenizers.ts'
import { PieceCache } from './pieces/piece-cache.ts'
import { TokenBuffer } from './pieces/token-buffer.ts'
import { patternPreTokenizer } from './pre-tokenizer.ts'
import type { PreTokenizer } from './pre-tokenizer.ts'

const QWEN_JSON =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const PATTERNS: Readonly<Record<string, readonly string[]>> = {
  'Qwen, tokenizer.json': [QWEN_JSON],
  'Llama 3, tokenizer.json': [QWEN_JSON.replace('\\p{N}|', '\\p{N}{1,3}|')],
  'Qwen, GGUF': ggufPreTokenizer('qwen2')?.patterns ?? [],
  'Llama 3, GGUF': ggufPreTokenizer('llama3')?.patterns ?? [],
  'GPT-2, GGUF': ggufPreTokenizer('gpt-2')?.patterns ?? [],
}
/** Characters where the cuts are, and such as look like others to an expression that folds case. */
const SPICE = [
  ...Array.from(' \t\n\r\v\f\'"’.,!-_/()0123456789abcstmdrevlSTMDREVLXYZ'),
  ...Array.from(
    '\u0000\u0085\u00a0\u1680\u2028\u3000\ufeff\u200b\u180e\u017f\u212a\u0130\u0345\u0301\u0660\u2160\u00b2\u4e2d\u6587\u0e01',
  ),
  ...Array.from('äöüßÉжщאب한😀🏽𝒜𝟘🇩🇪\u{e0041}\u{10ffff}\ufffd'),
  "'s",
  "'LL",
  "'re",
  '  ',
  '\r\n',
  ' \n ',
  'word',
  ' Word',
]
const SEED = Number(process.env['BATON_FUZZ_SEED'] ?? Date.now() % 1e9)

function piecesByCode({ next }: PreTokenizer, text: string): string[] | null {
  if (next === null) return null
  const units = Uint16Array.from({ length: text.length }, (_, i) => text.charCodeAt(i))
  const pieces: string[] = []
  for (let at = 0; at < text.length;) {
    const to = next(units, at, text.length)
    pieces.push(text.slice(at, to))
    at = to
  }
  return pieces
}

/** The pieces that a cache encodes, which finds most words by itself. Its ids are the numbers of different pieces. */
function piecesOfCache(): (preTokenizer: PreTokenizer, text: string) => string[] | null {
  const known: string[] = []
  const ids = new TokenBuffer()
  const cache = new PieceCache((units, start, end, to) => {
    to.push(known.push(String.fromCharCode(...units.subarray(start, end))) - 1)
  })
  return ({ next }, text) => {
    if (next === null) return null
    cache.encodeText(text, next, ids.clear())
    return Array.from(ids.finish(), (id) => known[id] ?? '')
  }
}

describe.each(Object.entries(PATTERNS))('cuts by code: %s', (_, patterns) => {
  const preTokenizer = patternPreTokenizer(patterns)
  const cached = piecesOfCache()
  const check = (text: string): void => {
    const pieces = text === '' ? [] : preTokenizer.pieces(text)
    expect(piecesByCode(preTokenizer, text), JSON.stringify(text)).toEqual(pieces)
    expect(cached(preTokenizer, text), JSON.stringify(text)).toEqual(pieces)
  }

  it('difficult texts - the same pieces as the expression', () => {
    for (const text of [...UNKIND_TEXTS, ...randomTexts(SEED, 300)]) {
      if (!/\p{Surrogate}/u.test(text)) check(text)
    }
  })

  it(`texts of characters where cuts are, seed ${SEED} - the pieces of the expression`, () => {
    const random = seededRandom(SEED)
    for (let round = 0; round < 20_000; round++) {
      const length = 1 + randomInt(random, 12)
      let text = ''
      for (let i = 0; i < length; i++) text += SPICE[randomInt(random, SPICE.length)] ?? ''
      check(text)
    }
  })

  it('every character of the first two planes next to letters, digits, symbols and blanks - the same pieces', () => {
    for (let first = 0; first < 0x20000; first += 64) {
      let text = ''
      for (let code = first; code < first + 64; code++) {
        if (code >= 0xd800 && code <= 0xdfff) continue
        const character = String.fromCodePoint(code)
        text += `a${character} ${character}b1${character}!${character}${character}\n`
      }
      if (text !== '') check(text)
    }
  })
})

it('patterns without code - are cut by the expressions', () => {
  for (const name of ['gpt-4o', 'starcoder', 'deepseek-v3']) {
    const preTokenizer = patternPreTokenizer(ggufPreTokenizer(name)?.patterns ?? [])
    expect(preTokenizer.next).toBeNull()
    expect(preTokenizer.pieces('It is 12 o’clock.').join('')).toBe('It is 12 o’clock.')
  }
})
