/** Validates that a keyword's value is a list. */
import { invalidSchema } from '../gbnf/grammar-refusal.ts'

/** Throws `request.invalid_argument`. */
export function listOf(value: unknown, keyword: string): readonly unknown[] {
  if (Array.isArray(value)) return value as readonly unknown[]
  throw invalidSchema(`'${keyword}' must be a list`)
}
