/** Builds the grammar (GBNF) for a request with structured output. */
import { BatonError } from '../../base/index.ts'
import type { GuidedDecoding } from '../../request/index.ts'
import { checkEmptyRepeats } from '../gbnf/empty-repeats.ts'
import { checkChoices, checkGbnf } from '../gbnf/gbnf-limits.ts'
import { gbnfText } from '../gbnf/gbnf-literal.ts'
import { invalid } from '../gbnf/grammar-refusal.ts'
import { automatonGbnf } from '../regex/automaton-gbnf.ts'
import { RegexBudget } from '../regex/regex-budget.ts'
import { RegexLanguages } from '../regex/regex-language.ts'
import { anyJsonGbnf } from './json-gbnf.ts'
import { jsonSchemaToGbnf } from './json-schema-gbnf.ts'
import { regexGbnf } from '../regex/regex-gbnf.ts'
import { hasLook, parseRegex, readRegex } from '../regex/regex-syntax.ts'

/**
 * Throws `request.unsupported_parameter` for constraints that cannot be enforced, `request.invalid_argument` for
 * invalid ones; both name the client's field. With a relaxed request, ignored keywords are added to `relaxed`.
 */
export function guidedGrammar(guided: GuidedDecoding, relaxed = new Set<string>()): string {
  try {
    const gbnf = grammarOf(guided, relaxed)
    if (guided.kind !== 'json-schema') checkGbnf(gbnf)
    if (guided.kind === 'grammar') checkEmptyRepeats(gbnf)
    return gbnf
  } catch (thrown) {
    if (!(thrown instanceof BatonError) || guided.field === undefined) throw thrown
    throw new BatonError(thrown.code, `\`${guided.field}\`: ${thrown.message}`, {
      data: { ...thrown.data, param: guided.field },
      cause: thrown,
    })
  }
}

function grammarOf(guided: GuidedDecoding, relaxed: Set<string>): string {
  switch (guided.kind) {
    case 'json':
      return anyJsonGbnf()
    case 'json-schema':
      return jsonSchemaToGbnf(guided.schema, guided.isRelaxed === true ? relaxed : undefined)
    case 'choice':
      checkChoices(guided.choices)
      return `root ::= ${guided.choices.map(gbnfText).join(' | ')}\n`
    case 'grammar':
      return guided.gbnf
    case 'regex':
      return patternGbnf(guided.pattern)
  }
}

function patternGbnf(pattern: string): string {
  const regex = readRegex(pattern)
  if (!hasLook(regex)) return `root ::= ${regexGbnf(parseRegex(pattern), 'plain')}\n`
  const languages = new RegexLanguages(new RegexBudget())
  const rules = automatonGbnf(languages, languages.whole(regex), 'root', 'plain')
  if (rules === null) throw invalid('no text matches the pattern')
  return rules
}
