/**
 * Repetition without a limit of what can be empty, such as `(a|b|)*`, `(a?b*)+` or `(x*)*`: engines refuse a grammar
 * of it, because its rule begins with itself.
 */
import { regexLength } from './regex-length.ts'
import type { Regex } from './regex-syntax.ts'

/**
 * Expressions that are never empty and any number of which, in any order, match the same texts as any number of
 * `regex`. A sequence of parts that can all be empty is repeated like a choice between them.
 */
export function repeatedParts(regex: Regex): readonly Regex[] {
  if (regexLength(regex).least > 0) return [regex]
  switch (regex.kind) {
    case 'sequence':
      return regex.parts.flatMap(repeatedParts)
    case 'choice':
      return regex.options.flatMap(repeatedParts)
    case 'repeat':
      return regex.most === 0 ? [] : repeatedParts(regex.part)
    default:
      return []
  }
}
