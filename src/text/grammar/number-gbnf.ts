/**
 * Numbers within a JSON schema's bounds as GBNF, exactly. Bounded numbers have no exponent and at most 15 digits, so
 * that what holds for the digits holds for the double that is parsed from them.
 */
import { attempted, invalid, nothingValid, unsupported } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'
import {
  digit,
  DIGITS_MAX,
  INTEGER_MAX,
  integerBetween,
  naturalBetween,
} from '../gbnf/integer-gbnf.ts'
import type { Schema } from './json-schema-types.ts'

/** Up to this many allowed numbers are listed one by one. */
const LISTED_MAX = 1000
const BOUNDS = ['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum', 'multipleOf']

export function integerGbnf(schema: Schema, drop: DropKeyword): string {
  return withoutUnsupported(schema, drop, exactInteger)
}

export function numberGbnf(schema: Schema, drop: DropKeyword): string {
  return withoutUnsupported(schema, drop, exactNumber)
}

/** Drops the one bound that no grammar can express, or all if there are several. */
function withoutUnsupported(
  schema: Schema,
  drop: DropKeyword,
  write: (schema: Schema) => string,
): string {
  const whole = attempted(() => write(schema))
  if ('value' in whole) return whole.value
  const given = BOUNDS.filter((keyword) => schema[keyword] !== undefined)
  for (const keywords of [...given.map((keyword) => [keyword]), given]) {
    const rest = Object.entries(schema).filter(([keyword]) => !keywords.includes(keyword))
    const part = attempted(() => write(Object.fromEntries(rest)))
    if (!('value' in part)) continue
    for (const keyword of keywords) drop(keyword, whole.what)
    return part.value
  }
  throw unsupported(whole.what)
}

function exactInteger(schema: Schema): string {
  const least = Math.max(
    number(schema, 'minimum', -Infinity, Math.ceil),
    number(schema, 'exclusiveMinimum', -Infinity, (value) => Math.floor(value) + 1),
  )
  const most = Math.min(
    number(schema, 'maximum', Infinity, Math.floor),
    number(schema, 'exclusiveMaximum', Infinity, (value) => Math.ceil(value) - 1),
  )
  if (least > most) throw nothingValid('the bounds allow no number')
  if (least > INTEGER_MAX || most < -INTEGER_MAX)
    throw unsupported(`an integer of more than ${DIGITS_MAX} digits`)
  const step = number(schema, 'multipleOf', 1)
  if (step !== 1) return multiples(step, least, most)
  if (least < -INTEGER_MAX && most > INTEGER_MAX) return 'integer'
  const range = integerBetween(Math.max(least, -INTEGER_MAX), Math.min(most, INTEGER_MAX))
  return `( ${range ?? ''} ws )`
}

/** Multiples of powers of ten by their trailing zeros, others one by one. */
function multiples(step: number, least: number, most: number): string {
  if (!(step > 0)) throw invalid("'multipleOf' must be above 0")
  const first = Math.ceil(Math.max(least, -INTEGER_MAX) / step)
  const last = Math.floor(Math.min(most, INTEGER_MAX) / step)
  if (first > last) throw nothingValid('the bounds allow no number')
  if (last - first < LISTED_MAX && Number.isInteger(step)) {
    const values = Array.from({ length: last - first + 1 }, (_, i) => `"${(first + i) * step}"`)
    return `( ( ${values.join(' | ')} ) ws )`
  }
  const zeros = Math.log10(step)
  if (!Number.isInteger(zeros) || zeros < 0)
    throw unsupported(`'multipleOf' ${step} of an integer within wide bounds`)
  const options = [
    first <= 0 && last >= 0 ? '"0"' : null,
    withZeros(integerBetween(first, Math.min(last, -1)), zeros),
    withZeros(integerBetween(Math.max(first, 1), last), zeros),
  ]
  return `( ( ${options.filter((option) => option !== null).join(' | ')} ) ws )`
}

function withZeros(range: string | null, zeros: number): string | null {
  return range === null ? null : `${range} "${'0'.repeat(zeros)}"`
}

function exactNumber(schema: Schema): string {
  const step = schema['multipleOf'] === undefined ? undefined : number(schema, 'multipleOf', 1)
  if (step !== undefined && Number.isInteger(step)) return exactInteger(schema)
  const decimalsMax = step === undefined ? DIGITS_MAX : decimalsOf(step)
  const low = tighter(schema, 'minimum', 'exclusiveMinimum', -1)
  const high = tighter(schema, 'maximum', 'exclusiveMaximum', 1)
  if (!BOUNDS.some((keyword) => schema[keyword] !== undefined)) return 'number'
  const options = [
    low === null || low.value < 0 ? prefixed('"-" ', below(high, low, decimalsMax)) : null,
    high === null || high.value > 0 || (high.value === 0 && !high.isStrict)
      ? above(low, high, decimalsMax)
      : null,
  ].filter((option) => option !== null)
  if (options.length === 0) throw nothingValid('the bounds allow no number')
  return `( ( ${options.join(' | ')} ) ws )`
}

interface Bound {
  readonly value: number
  readonly isStrict: boolean
}

/** The part of the range from 0 on. */
function above(low: Bound | null, high: Bound | null, decimalsMax: number): string | null {
  const from = low === null || low.value < 0 ? { value: 0, isStrict: false } : low
  return magnitudes(from, high, decimalsMax)
}

/** The part of the range below 0, without the sign. */
function below(high: Bound | null, low: Bound | null, decimalsMax: number): string | null {
  const from =
    high === null || high.value >= 0
      ? { value: 0, isStrict: true }
      : { value: -high.value, isStrict: high.isStrict }
  const to = low === null ? null : { value: -low.value, isStrict: low.isStrict }
  return magnitudes(from, to, decimalsMax)
}

function prefixed(prefix: string, expression: string | null): string | null {
  return expression === null ? null : prefix + expression
}

/** `from` is not negative. Integer parts strictly inside allow any decimals; those at the bounds only some. */
function magnitudes(from: Bound, to: Bound | null, decimalsMax: number): string | null {
  const low = digitsOf(from)
  const high = to === null ? null : digitsOf(to)
  const last = high?.whole ?? INTEGER_MAX
  if (low.whole > last) return null
  const decimals = Math.min(decimalsMax, Math.max(1, DIGITS_MAX - String(last).length))
  const options: (string | null)[] = []
  if (low.whole === last && high !== null) {
    options.push(edge(low.whole, low.rest, from.isStrict, high.rest, to, decimalsMax))
  } else {
    options.push(edge(low.whole, low.rest, from.isStrict, null, null, decimalsMax))
    const inside = naturalBetween(low.whole + 1, high === null ? INTEGER_MAX : last - 1)
    const anyDecimals = to === null ? decimalsMax : decimals
    if (inside !== null) options.push(`${inside} ( "." [0-9]{1,${anyDecimals}} )?`)
    if (high !== null) options.push(edge(last, '', false, high.rest, to, decimalsMax))
  }
  const some = options.filter((option) => option !== null)
  return some.length === 0 ? null : `( ${some.join(' | ')} )`
}

/** One integer part with the decimals that stay within the bounds. */
function edge(
  whole: number,
  low: string,
  isLowStrict: boolean,
  high: string | null,
  to: Bound | null,
  decimalsMax: number,
): string | null {
  const places = Math.min(decimalsMax, Math.max(1, DIGITS_MAX - String(whole).length))
  const limits: Decimals = {
    low: low === '' && !isLowStrict ? null : low,
    isLowStrict,
    high,
    isHighStrict: to?.isStrict ?? false,
  }
  const rest = decimalsBetween(limits, places, true)
  const none = mayEnd(limits)
  if (rest === null) return none ? `"${whole}"` : null
  return none ? `"${whole}" ( "." ${rest} )?` : `"${whole}" "." ${rest}`
}

/** Remaining decimals of the bounds; null: no constraint on that side. */
interface Decimals {
  readonly low: string | null
  readonly isLowStrict: boolean
  readonly high: string | null
  readonly isHighStrict: boolean
}

function mayEnd({ low, isLowStrict, high, isHighStrict }: Decimals): boolean {
  const lowHolds = low === null || (low === '' && !isLowStrict)
  const highHolds = high === null || high !== '' || !isHighStrict
  return lowHolds && highHolds
}

/** At most `places` digits; null: there is no such text. */
function decimalsBetween(limits: Decimals, places: number, isFirst: boolean): string | null {
  const { low, high } = limits
  const canEnd = !isFirst && mayEnd(limits)
  if (places === 0) return canEnd ? '""' : null
  if (low === null && high === null) return `[0-9]{${isFirst ? 1 : 0},${places}}`
  const from = low === null ? 0 : Number(low[0] ?? 0)
  const to = high === null ? 9 : Number(high[0] ?? 0)
  const options: string[] = []
  for (const value of new Set([from, to])) {
    if (value < from || value > to) continue
    const next = {
      ...limits,
      low: low === null || value > from ? null : restOf(low, limits.isLowStrict),
      high: high === null || value < to ? null : high.slice(1),
    }
    const rest = decimalsBetween(next, places - 1, false)
    if (rest !== null) options.push(rest === '""' ? `"${value}"` : `"${value}" ${rest}`)
  }
  if (to - from > 1) {
    const rest = places === 1 ? '' : ` [0-9]{0,${places - 1}}`
    options.push(`${digit(from + 1, to - 1)}${rest}`)
  }
  if (options.length === 0) return canEnd ? '""' : null
  return `( ${options.join(' | ')} )${canEnd ? '?' : ''}`
}

function restOf(low: string, isStrict: boolean): string | null {
  const rest = low.slice(1)
  return rest === '' && !isStrict ? null : rest
}

/** The digits of a bound that is not negative. */
function digitsOf({ value }: Bound): { readonly whole: number; readonly rest: string } {
  const shortest = String(value)
  const text = shortest.includes('e') ? value.toFixed(DIGITS_MAX) : shortest
  const [whole = '', decimals = ''] = text.split('.')
  const rest = decimals.replace(/0+$/, '')
  if (Number(text) !== value || whole.length + rest.length > DIGITS_MAX)
    throw unsupported(`a bound of more than ${DIGITS_MAX} digits`)
  return { whole: Number(whole), rest }
}

/** The stricter bound; `side` 1: the smaller one is stricter. */
function tighter(schema: Schema, open: string, strict: string, side: 1 | -1): Bound | null {
  const value = number(schema, open, side * Infinity)
  const strictValue = number(schema, strict, side * Infinity)
  const isStrict = side * strictValue <= side * value
  const tightest = isStrict ? strictValue : value
  // Numbers beyond `INTEGER_MAX` are never generated, so a bound beyond it always holds.
  return side * tightest > INTEGER_MAX ? null : { value: tightest, isStrict }
}

function decimalsOf(step: number): number {
  const places = -Math.log10(step)
  if (!Number.isInteger(places) || places < 1 || places > DIGITS_MAX)
    throw unsupported(`'multipleOf' ${step} of a number`)
  return places
}

function number(
  schema: Schema,
  keyword: string,
  none: number,
  round: (value: number) => number = (value) => value,
): number {
  const value = schema[keyword]
  if (value === undefined) return none
  if (typeof value === 'number') return round(value)
  throw invalid(`the JSON schema's '${keyword}' is no number`)
}
