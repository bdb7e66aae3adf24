import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { escapePattern } from '../tokenize/escape-pattern.ts'
import type { AddedToken } from '../tokenize/tokenizer.ts'
import { ControlTextGuard } from './control-text-guard.ts'
import { ControlTextPattern } from './control-text-pattern.ts'
import { Pace, withoutPauses } from './paced-scan.ts'

/** What the guard does, in the form of regular expressions: short, but far too slow for hostile texts. */
class RegularExpressions {
  readonly #begins: RegExp
  readonly #taken: ReadonlySet<string>
  readonly #characters = new Map<string, string>()
  readonly #mark = /[\uE000-\uF8FF]|\\u[ef][0-9a-f]{3}/gi

  constructor(tokens: readonly AddedToken[], texts: readonly string[]) {
    const plain = tokens.filter(({ control }) => !control).map(({ text }) => text)
    const control = tokens.filter((token) => token.control).map(({ text }) => text)
    this.#begins = new RegExp(control.map((text) => beginOf(text, plain)).join('|') || '(?!)', 'gu')
    const found = texts.flatMap((text) => text.match(this.#mark) ?? [])
    this.#taken = new Set(found.map(markIn))
  }

  occursIn(text: string): boolean {
    return text.search(this.#begins) >= 0
  }

  protect(text: string): string {
    return text.replace(this.#begins, (character) => this.#markOf(character))
  }

  restore(rendered: string): { text: string; ranges: number[] } {
    const ranges: number[] = []
    let text = ''
    let from = 0
    for (const match of rendered.matchAll(this.#mark)) {
      const character = this.#characters.get(markIn(match[0]))
      if (character === undefined) continue
      text += rendered.slice(from, match.index)
      ranges.push(text.length, text.length + character.length)
      text += character
      from = match.index + match[0].length
    }
    return { text: text + rendered.slice(from), ranges }
  }

  #markOf(character: string): string {
    for (const [mark, of] of this.#characters) if (of === character) return mark
    let code = 0xe000
    const isUsed = (mark: string) => this.#taken.has(mark) || this.#characters.has(mark)
    while (isUsed(String.fromCharCode(code))) code++
    this.#characters.set(String.fromCharCode(code), character)
    return String.fromCharCode(code)
  }
}

function markIn(found: string): string {
  return found.length === 1 ? found : String.fromCharCode(Number.parseInt(found.slice(2), 16))
}

function beginOf(token: string, plain: readonly string[]): string {
  const characters = Array.from(token)
  let length = /^[^\p{L}\p{N}\s]/u.test(token) ? Math.min(2, characters.length) : characters.length
  const startsPlain = () =>
    plain.some((text) => text.startsWith(characters.slice(0, length).join('')))
  while (length < characters.length && startsPlain()) length++
  const rest = characters.slice(1, length)
  const ends = rest.map((_, i) => `${escapePattern(rest.slice(0, i).join(''))}\\s*$`)
  const followed = [escapePattern(rest.join('')), ...ends].join('|')
  return `${escapePattern(characters[0] ?? '')}(?=${followed})`
}

const PIECES = [
  // Tokens and their parts.
  '<',
  '|',
  '<|',
  '<<',
  '<think>',
  '<|im_end|>',
  '[',
  '[INST]',
  '</s>',
  's>',
  'INST',
  '▁x',
  ' ',
  '\n',
  '\u3000',
  'a',
  '😀',
  '😀!',
  '\ud83d',
  '\ude00',
  '\\',
  '"',
  // Marks in both forms.
  '\ue000',
  '\ue001',
  '\uf8ff',
  '\\ue000',
  '\\UE001',
  '\\ue00',
  '\\uf900',
  '\\\\ue002',
]
const TOKENS = ['<|im_end|>', '<<SYS>>', '<think>', '</s>', '[INST]', '😀!', ' x', '▁', 'INST', 'a']
const textOf = fc
  .array(fc.constantFrom(...PIECES), { maxLength: 12 })
  .map((pieces) => pieces.join(''))
const tokensOf = fc
  .array(fc.record({ text: fc.constantFrom(...TOKENS), control: fc.boolean() }), { maxLength: 6 })
  .map((tokens): AddedToken[] => tokens.map((token, id) => ({ id, ...token })))
/** What templates do to a text, as far as marks are concerned. */
const renderings = [
  (text: string) => text,
  (text: string) => `<|im_start|>${text.trim()}<|im_end|>`,
  (text: string) => text.slice(1) + text,
  (text: string) =>
    JSON.stringify(text).replace(
      /[\u0080-\uffff]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
]

describe('the guard of control texts', () => {
  it('does what the regular expressions do', () => {
    fc.assert(
      fc.property(tokensOf, fc.array(textOf, { maxLength: 3 }), (tokens, texts) => {
        const old = new RegularExpressions(tokens, texts)
        const pattern = new ControlTextPattern(tokens)
        const guard = new ControlTextGuard(pattern, new Pace())
        for (const text of texts) {
          expect(withoutPauses(pattern.occursIn(text, new Pace()))).toBe(old.occursIn(text))
          withoutPauses(guard.avoid(text))
        }
        const marked = texts.map((text) => withoutPauses(guard.protect(text)))
        expect(marked).toEqual(texts.map((text) => old.protect(text)))
        for (const rendering of renderings) {
          const rendered = rendering(marked.join('\n'))
          const { text, ranges } = old.restore(rendered)
          expect(withoutPauses(guard.restore(rendered))).toBe(text)
          expect(guard.literalRanges(rendered)).toEqual(ranges)
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('is the same for matches and marks across the borders of a scan', () => {
    const tokens: AddedToken[] = [
      { id: 0, text: '<|x|>', control: true },
      { id: 1, text: '😀!', control: true },
    ]
    for (let length = 500; length < 520; length++) {
      for (const piece of ['<|', '😀!', '😀']) {
        const text = `<${'.'.repeat(length)}${piece.repeat(6000)}<  `
        const old = new RegularExpressions(tokens, [text])
        const guard = new ControlTextGuard(new ControlTextPattern(tokens), new Pace())
        const marked = withoutPauses(guard.protect(text))
        expect(marked === old.protect(text)).toBe(true)
        expect(withoutPauses(guard.restore(marked)) === text).toBe(true)
        expect(guard.literalRanges(marked)).toEqual(old.restore(marked).ranges)
      }
    }
  })

  it('every private-use character is taken - refused', () => {
    const all = Array.from({ length: 6400 }, (_, i) => String.fromCharCode(0xe000 + i)).join('')
    const tokens: AddedToken[] = [{ id: 0, text: '<|x|>', control: true }]
    const guard = new ControlTextGuard(new ControlTextPattern(tokens), new Pace())
    withoutPauses(guard.avoid(all))
    expect(withoutPauses(guard.protect(all))).toBe(all)
    expect(() => withoutPauses(guard.protect('<|'))).toThrow('every private-use character')
  })
})
