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
    ['repetitions', `root ::= ${'"a"{0,2000} '.repeat(51)}`],
  ])('too many %s - refused before llama.cpp sees them', (_what, gbnf) => {
    expect(codeOf(gbnf)).toBe('request.invalid_argument')
  })

  it('brackets inside literals - are not counted as groups', () => {
    expect(codeOf(`root ::= "${'('.repeat(500)}" [(((] # ((((`)).toBe('accepted')
  })

  it('choices - become literals, with quotes and line breaks escaped', () => {
    expect(guidedGrammar({ kind: 'choice', choices: ['a "b"', 'c\\\n'] })).toBe(
      String.raw`root ::= "a \"b\"" | "c\\\x0a"` + '\n',
    )
  })
})
