/**
 * Converts a JSON schema to a GBNF grammar whose every text is valid for the schema.
 *
 * The grammar may accept less than the schema (properties appear in schema order; additional properties are excluded
 * if any are named; a pattern must match the whole string), but never more: a keyword that cannot be enforced is
 * refused by name. If the client did not ask for strict mode, the keyword is ignored instead, and its name is
 * reported.
 */
import { BatonError } from '../../base/index.ts'
import { checkGbnf } from '../gbnf/gbnf-limits.ts'
import { GrammarTooLarge, refuseKeyword } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'
import { GrammarRules } from './grammar-rules.ts'
import { jsonRules } from './json-gbnf.ts'
import { SchemaPlace } from './json-schema-place.ts'
import { NO_LIMITS, SchemaWriter } from './json-schema-writer.ts'
import type { WriterLimits } from './json-schema-writer.ts'
import { withPlainBounds } from './plain-bounds.ts'
import { SchemaBudget, SchemaContext } from './schema-context.ts'
import { shallow } from './schema-expressions.ts'

/** For schemas that are too large and not strict, tried in this order: lists of at most, levels of at most. */
const LIMITS: readonly WriterLimits[] = [
  { listMax: 1000, depthMax: Infinity },
  { listMax: 100, depthMax: 12 },
  { listMax: 100, depthMax: 6 },
  { listMax: 10, depthMax: 3 },
  { listMax: 10, depthMax: 1 },
  { listMax: 10, depthMax: 0 },
]
/** Names of keywords that are reported; the rest is only counted. */
const NAMES_MAX = 20

/**
 * Throws `request.unsupported_parameter` or `request.invalid_argument`; the message contains the location in the
 * schema. With `relaxed`, unsupported keywords are ignored and their names are added to it.
 */
export function jsonSchemaToGbnf(schema: unknown, relaxed?: Set<string>): string {
  const plain = withPlainBounds(schema)
  const drop = relaxed === undefined ? refuseKeyword : reportTo(relaxed)
  const budget = new SchemaBudget()
  try {
    return grammarOf(plain, drop, NO_LIMITS, budget)
  } catch (thrown) {
    if (relaxed === undefined || !(thrown instanceof GrammarTooLarge)) throw thrown
    for (const limits of LIMITS) {
      try {
        const gbnf = grammarOf(plain, drop, limits, budget)
        drop('size', "'size'")
        return gbnf
      } catch (again) {
        if (!(again instanceof GrammarTooLarge)) throw again
      }
    }
    drop('size', "'size'")
    return `root ::= ws ${shallow(plain)}\n${jsonRules()}`
  }
}

/** Names are the client's; they are reported in a header. */
function reportTo(relaxed: Set<string>): DropKeyword {
  return (keyword) => {
    if (relaxed.size < NAMES_MAX) relaxed.add(/^[$\w-]{1,40}$/.test(keyword) ? keyword : 'unknown')
  }
}

function grammarOf(
  schema: unknown,
  drop: DropKeyword,
  limits: WriterLimits,
  budget: SchemaBudget,
): string {
  const place = new SchemaPlace()
  try {
    const write = (avoided: ReadonlySet<string>): readonly [string, GrammarRules] => {
      const rules = new GrammarRules(place, avoided)
      const writer = new SchemaWriter(schema, place, new SchemaContext(drop, budget), limits, rules)
      const root = writer.expression(schema)
      const gbnf = `root ::= ws ${root}\n${rules.text}${jsonRules()}`
      checkGbnf(gbnf)
      return [gbnf, rules]
    }
    const [gbnf, rules] = write(new Set())
    const endless = rules.endless(gbnf)
    return endless.size === 0 ? gbnf : write(endless)[0]
  } catch (thrown) {
    if (!(thrown instanceof BatonError) || place.path.length === 0) throw thrown
    const where = `${thrown.message} (in the schema at ${place.path.map((part) => `/${part}`).join('')})`
    if (thrown instanceof GrammarTooLarge) throw new GrammarTooLarge(where)
    throw new BatonError(thrown.code, where, { data: thrown.data, cause: thrown })
  }
}
