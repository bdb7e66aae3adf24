/**
 * A schema whose integers beyond a double are kept where they are values (`const`, `enum`), and are doubles elsewhere: a bound of so
 * many digits is refused anyway, and defaults and examples say nothing about what may come.
 */
import { hasExactIntegers, isRecord, withPlainIntegers } from '../../base/index.ts'

/** Keywords whose keys are names of the user's, and not keywords. */
const NAMES = new Set(['properties', 'patternProperties', '$defs', 'definitions'])

export function withPlainBounds(schema: unknown): unknown {
  return hasExactIntegers(schema) ? plain(schema) : schema
}

function plain(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain)
  if (!isRecord(schema)) return withPlainIntegers(schema)
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (keyword === 'const' || keyword === 'enum') return [keyword, value]
      if (!NAMES.has(keyword) || !isRecord(value)) return [keyword, plain(value)]
      const named = Object.entries(value).map(([name, each]) => [name, plain(each)])
      return [keyword, Object.fromEntries(named)]
    }),
  )
}
