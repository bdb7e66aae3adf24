/** The grammar (GBNF) that a guided request asks for. */
import { BatonError } from '../../../base/index.ts'
import type { GuidedDecoding } from '../../../request/index.ts'
import { checkGbnf } from './gbnf-limits.ts'
import { anyJsonGbnf, gbnfText } from './json-gbnf.ts'
import { jsonSchemaToGbnf } from './json-schema-gbnf.ts'

/** Throws `request.unsupported_parameter` for what cannot be enforced, `request.invalid_argument` for nonsense. */
export function guidedGrammar(guided: GuidedDecoding): string {
  const gbnf = grammarOf(guided)
  checkGbnf(gbnf)
  return gbnf
}

function grammarOf(guided: GuidedDecoding): string {
  switch (guided.kind) {
    case 'json':
      return anyJsonGbnf()
    case 'json-schema':
      return jsonSchemaToGbnf(guided.schema)
    case 'choice':
      return `root ::= ${guided.choices.map(gbnfText).join(' | ')}\n`
    case 'grammar':
      return guided.gbnf
    case 'regex':
      throw new BatonError(
        'request.unsupported_parameter',
        'guided decoding by regex is not supported by the llama.cpp engine; use a grammar or a JSON schema',
      )
  }
}
