/**
 * Repetition of what can be empty, such as `(a|b|)*`, `(a?b*)+` or `(a?){200}`. Without a limit an engine refuses the
 * grammar of it, because its rule begins with itself; with one the engine tries so many ways that it may need minutes
 * for a token.
 */
import { unsupported } from '../gbnf/grammar-refusal.ts'
import { regexLength } from './regex-length.ts'
import type { Regex } from './regex-syntax.ts'

/** Each part of a sequence can be the first that is not empty, so the result grows with the square of their number. */
const PARTS_MAX = 16

/**
 * Expressions that are never empty and any number of which, in any order, match the same texts as any number of
 * `regex`. A sequence of parts that can all be empty is repeated like a choice between them.
 */
export function repeatedParts(regex: Regex): readonly Regex[] {
  if (!canBeEmpty(regex)) return [regex]
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

/** Matches the same texts except the empty one; null: there are no others. */
export function withoutEmpty(regex: Regex): Regex | null {
  if (!canBeEmpty(regex)) return regex
  switch (regex.kind) {
    case 'sequence': {
      if (regex.parts.length > PARTS_MAX)
        throw unsupported(`'pattern' that repeats more than ${PARTS_MAX} parts that can be empty`)
      return choiceOf(
        regex.parts.map((part, at) => {
          const first = withoutEmpty(part)
          if (first === null) return null
          return { kind: 'sequence', parts: [first, ...regex.parts.slice(at + 1)] }
        }),
      )
    }
    case 'choice':
      return choiceOf(regex.options.map(withoutEmpty))
    case 'repeat': {
      const part = regex.most === 0 ? null : withoutEmpty(regex.part)
      return part === null || regex.most === 1 ? part : { ...regex, part, least: 1 }
    }
    default:
      return null
  }
}

export function canBeEmpty(regex: Regex): boolean {
  return regexLength(regex).least === 0
}

export function choiceOf(given: readonly (Regex | null)[]): Regex | null {
  const options = given.filter((option) => option !== null)
  return options.length === 0 ? null : { kind: 'choice', options }
}
