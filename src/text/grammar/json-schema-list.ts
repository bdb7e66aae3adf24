/** Validates that a keyword's value is a list, or a list of names. */
import { invalidSchema } from '../gbnf/grammar-refusal.ts'
import type { Schema } from './json-schema-types.ts'

/** Throws `request.invalid_argument`. */
export function listOf(value: unknown, keyword: string): readonly unknown[] {
  if (Array.isArray(value)) return value as readonly unknown[]
  throw invalidSchema(`'${keyword}' must be a list`)
}

/** The names of properties that a schema requires. Throws `request.invalid_argument`. */
export function requiredOf(schema: Schema): readonly string[] {
  const names = listOf(schema['required'] ?? [], 'required')
  if (names.every((name) => typeof name === 'string')) return names
  throw invalidSchema("'required' must be a list of names")
}
