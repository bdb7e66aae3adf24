/** Several patterns of one string, from schemas that hold together. */
import { invalid } from '../gbnf/grammar-refusal.ts'

/** A class, so that a client's list in `pattern` is not taken for one. */
class PatternList {
  readonly patterns: readonly string[]

  constructor(patterns: readonly string[]) {
    this.patterns = patterns
  }
}

export function patternsOf(pattern: unknown): readonly string[] {
  if (pattern === undefined) return []
  if (pattern instanceof PatternList) return pattern.patterns
  if (typeof pattern !== 'string') throw invalid("'pattern' must be a text")
  return [pattern]
}

export function bothPatterns(a: unknown, b: unknown): PatternList {
  return new PatternList([...new Set([...patternsOf(a), ...patternsOf(b)])])
}

/** True only if it is certain that no text matches both: they begin with different texts. */
export function arePatternsDisjoint(a: string, b: string): boolean {
  const [one, other] = [beginOf(a), beginOf(b)]
  const length = Math.min(one.length, other.length)
  return one.slice(0, length) !== other.slice(0, length)
}

/** The plain text with which every match begins. */
function beginOf(pattern: string): string {
  const [, text = '', next = ''] = /^\^([\w -]*)(.?)/.exec(pattern) ?? []
  if (pattern.includes('|')) return ''
  return '*?{'.includes(next) && next !== '' ? text.slice(0, -1) : text
}
