/**
 * Keeps integers that a double cannot represent only where they are values (`const`, `enum`) and rounds them
 * elsewhere: bounds with so many digits are refused anyway, and defaults and examples constrain nothing.
 */
import { hasExactIntegers, isRecord, withPlainIntegers } from '../../base/index.ts'

/** Keywords whose members are user-defined names, not keywords. */
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
