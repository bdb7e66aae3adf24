import { describe, expect, it } from 'vitest'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededRandom } from '../../base/index.ts'
import { textOfGrammar } from './gbnf-text.ts'
import { guidedGrammar } from '../grammar/guided-grammar.ts'
import { modelOutputGrammar } from './model-output-gbnf.ts'

const node = {
  $defs: {
    node: {
      type: 'object',
      properties: {
        label: { type: 'string' },
        next: { type: 'array', items: { $ref: '#/$defs/node' } },
        any: true,
      },
      required: ['label', 'next', 'any'],
    },
  },
  $ref: '#/$defs/node',
}
const thinking = modelOutputGrammar(guidedGrammar({ kind: 'json' }), '', {
  thought: { opens: ['<think>'], closes: ['</think>', '[end]'], isInside: true },
  calls: [{ open: '<c>', close: '</c>', isJson: false }],
  allowsSeveralCalls: true,
})
const GRAMMARS: readonly (readonly [string, string])[] = [
  ['json', guidedGrammar({ kind: 'json' })],
  ['a schema that refers to itself', guidedGrammar({ kind: 'json-schema', schema: node })],
  ['a pattern', guidedGrammar({ kind: 'regex', pattern: '[^a-z]{2,5}(é|\\d)+x?' })],
  ['a choice', guidedGrammar({ kind: 'choice', choices: ['yes "x"', 'é🦊', 'a\nb'] })],
  ['thought, calls, answer', thinking],
  ['sets and comments', 'root ::= [^\\x00-\\x7f] [\\u00e9-\\u00ea]{2} # note\n  \n'],
  ['only right recursion', 'root ::= "a" root | "b" b\nb ::= "" | "c" b'],
]

describe('textOfGrammar', () => {
  it.each(GRAMMARS)('%s - every text belongs to the grammar, at any length', (_what, gbnf) => {
    const language = new GbnfLanguage(gbnf)
    for (const wanted of [0, 10, 120]) {
      for (let seed = 0; seed < 12; seed++) {
        const random = seededRandom(seed)
        const text = textOfGrammar(gbnf, () => random.next(), wanted)
        expect([text, language.has(text)]).toEqual([text, true])
      }
    }
  })

  it('the wanted length has an effect, and the same random numbers give the same text', () => {
    const draw = (wanted: number) => {
      const random = seededRandom(7)
      return textOfGrammar('root ::= [a-z] root | "."', () => random.next(), wanted)
    }
    expect(draw(0)).toBe('.')
    expect(draw(50)).toBe(draw(50))
  })

  it.each([
    ['root ::= a', "no rule 'a'"],
    ['a ::= "x"', "no rule 'root'"],
    ['root ::= "x', 'is not closed'],
    ['root ::= ("x"', "expected ')'"],
    ['root ::= "x" root', 'no finite text'],
    ['root = "x"', "expected '::='"],
    ['root ::= "x"{200000}', 'too long'],
  ])('%s - refused', (gbnf, why) => {
    expect(() => textOfGrammar(gbnf, () => 0.5, 10)).toThrow(why)
  })
})
