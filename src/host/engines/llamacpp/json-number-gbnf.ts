/** Numbers within bounds as GBNF, as far as a grammar can count. Throws `request.unsupported_parameter` otherwise. */
import { BatonError } from '../../../base/index.ts'

type Schema = Readonly<Record<string, unknown>>

/** So many numbers are written out one by one. */
const LISTED_MAX = 1000
/** The rule `natural` has at most 15 digits, so wider bounds always hold. */
const ALWAYS_WITHIN = 999_999_999_999_999

export function integerGbnf(schema: Schema): string {
  const least = Math.max(
    limit(schema, 'minimum', -Infinity, Math.ceil),
    limit(schema, 'exclusiveMinimum', -Infinity, (value) => Math.floor(value) + 1),
  )
  const most = Math.min(
    limit(schema, 'maximum', Infinity, Math.floor),
    limit(schema, 'exclusiveMaximum', Infinity, (value) => Math.ceil(value) - 1),
  )
  if (least > most) throw refused('its bounds leave no number')
  if (most - least < LISTED_MAX) {
    const numbers = Array.from({ length: most - least + 1 }, (_, i) => `"${least + i}"`)
    return `( ( ${numbers.join(' | ')} ) ws )`
  }
  const isFree = least <= -ALWAYS_WITHIN
  if (most >= ALWAYS_WITHIN && isFree) return 'integer'
  if (most >= ALWAYS_WITHIN && least === 0) return '( natural ws )'
  if (most >= ALWAYS_WITHIN && least === 1) return '( [1-9] [0-9]{0,14} ws )'
  throw refused(`integers from ${least} to ${most} are too many to list`)
}

export function numberGbnf(schema: Schema): string {
  if (schema['maximum'] !== undefined || schema['exclusiveMaximum'] !== undefined)
    throw refused("'maximum' of a number")
  if (schema['exclusiveMinimum'] !== undefined) throw refused("'exclusiveMinimum' of a number")
  const least = schema['minimum']
  if (least === undefined) return 'number'
  if (least === 0) return '( natural decimals ws )'
  throw refused("a 'minimum' of a number other than 0")
}

function limit(
  schema: Schema,
  keyword: string,
  none: number,
  round: (value: number) => number,
): number {
  const value = schema[keyword]
  if (value === undefined) return none
  if (typeof value === 'number') return round(value)
  throw new BatonError('request.invalid_argument', `the JSON schema's '${keyword}' is no number`)
}

function refused(what: string): BatonError {
  return new BatonError(
    'request.unsupported_parameter',
    `the JSON schema cannot be enforced by the llama.cpp engine: ${what}`,
  )
}
