import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { guidedGrammar } from './guided-grammar.ts'

function codeOf(gbnf: string): string {
  try {
    guidedGrammar({ kind: 'grammar', gbnf })
    return 'accepted'
  } catch (error) {
    return error instanceof BatonError ? error.code : String(error)
  }
}

describe('guidedGrammar', () => {
  it.each([
    ['nested groups', `root ::= ${'('.repeat(20_000)}"a"${')'.repeat(20_000)}`],
    ['groups hidden behind literals', `root ::= ${'( ")" '.repeat(200)}`],
    ['groups hidden behind sets', `root ::= ${String.raw`( [)\]] `.repeat(200)}`],
    ['groups hidden behind comments', `root ::= ${'( #)\n'.repeat(200)}`],
    ['alternatives', `root ::= ${Array(6000).fill('"a"').join('|')}`],
    ['characters', `root ::= "${'a'.repeat(300_000)}"`],
    ['repetitions of what can be empty', 'root ::= ("a"?){300} "b"'],
    ['nested ones', 'root ::= ( x{6} ){6}\nx ::= y | "c"\ny ::= "a"* "b"?'],
    ['repetitions', `root ::= ${'"a"{0,2000} '.repeat(51)}`],
  ])('too many %s - refused before llama.cpp sees them', (_what, gbnf) => {
    expect(codeOf(gbnf)).toBe('request.invalid_argument')
  })

  it('brackets inside literals - are not counted as groups', () => {
    expect(codeOf(`root ::= "${'('.repeat(500)}" [(((] # ((((`)).toBe('accepted')
  })

  it('a few repetitions of what can be empty, many of what cannot - are accepted', () => {
    expect(codeOf('root ::= ("a"?){20} ("b" "c"?){2000} x\nx ::= "d" x | ""')).toBe('accepted')
    expect(
      codeOf('root ::= x ( x ){2000} y\nx ::= "a"{0,900} "b"\ny ::= (z{5}){5}\nz ::= ""'),
    ).toBe('accepted')
  })

  it('a pattern with very many - is written without the empty case, or refused by name', () => {
    const pattern = '(a?){1000}b'
    expect(guidedGrammar({ kind: 'regex', pattern })).toBe('root ::= ( ( "a" ){0,1000} "b" )\n')
    const many = `(${'a?'.repeat(40)}){2}`
    expect(() => guidedGrammar({ kind: 'regex', pattern: many })).toThrow('that can be empty')
  })

  it('choices - become literals, with quotes and line breaks escaped', () => {
    expect(guidedGrammar({ kind: 'choice', choices: ['a "b"', 'c\\\n'] })).toBe(
      String.raw`root ::= "a \"b\"" | "c\\\x0a"` + '\n',
    )
  })
})
