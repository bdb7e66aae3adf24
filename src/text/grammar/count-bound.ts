/** `minItems`, `maxLength` and similar keywords. */
import { invalid } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'
import type { Schema } from './json-schema-types.ts'

/** llama.cpp's limit for repetitions of a group. */
const ITEMS_MAX = 1000

/** More than `limit` is never generated: a larger upper bound becomes `limit`, a larger lower bound is not supported. */
export function countBound(
  schema: Schema,
  keyword: string,
  drop: DropKeyword,
  limit = ITEMS_MAX,
): number | undefined {
  const value = schema[keyword]
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
    throw invalid(`'${keyword}' must be a whole number from 0 on`)
  if (value <= limit) return value
  if (keyword.startsWith('max')) return limit
  drop(keyword, `'${keyword}' above ${limit}`)
  return undefined
}
