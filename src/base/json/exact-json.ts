/**
 * JSON without loss of integer digits: an integer that a double cannot represent becomes a bigint.
 *
 * For data that is only passed on, such as the arguments of an earlier tool call: a 64-bit id that a model has
 * written must be returned to it unchanged. Code that computes with such values or serialises them with
 * `JSON.stringify` has to expect bigints (`exactJson` serialises them, `withPlainIntegers` converts them to doubles).
 */
import { isRecord } from '../is-record.ts'

/** Integers of fewer than 16 digits always fit into a double. */
const MANY_DIGITS = /[0-9]{16}/

/** Throws `SyntaxError` like `JSON.parse`. */
export function parseExactJson(json: string): unknown {
  const wrapped = { json: JSON.parse(json) as unknown }
  const exact = withExactIntegers(wrapped, `{"json":${json}}`, () => true)
  return isRecord(exact) ? exact['json'] : exact
}

/**
 * `value` (parsed from `json`) with exact integers inside each member for which `isExact` returns true; the same
 * object if nothing has to change.
 */
export function withExactIntegers(
  value: unknown,
  json: string,
  isExact: (owner: Readonly<Record<string, unknown>>, key: string) => boolean,
): unknown {
  if (!MANY_DIGITS.test(json)) return value
  const quoted = withQuotedIntegers(json)
  if (quoted === json) return value
  // A quoted number cannot be told from a user's string in the text alone; comparing the two parsed trees can.
  return merged(value, JSON.parse(quoted), false)

  function merged(plain: unknown, exact: unknown, isIn: boolean): unknown {
    if (typeof plain === 'number') {
      return isIn && typeof exact === 'string' ? BigInt(exact) : plain
    }
    if (Array.isArray(plain) && Array.isArray(exact)) {
      return plain.map((item: unknown, index) => merged(item, exact[index], isIn))
    }
    if (!isRecord(plain) || !isRecord(exact)) return plain
    const entries = Object.entries(plain)
    return Object.fromEntries(
      entries.map(([key, item]) => [key, merged(item, exact[key], isIn || isExact(plain, key))]),
    )
  }
}

/** Like `JSON.stringify`, for plain data that may contain bigints. */
export function exactJson(value: unknown): string {
  if (typeof value === 'bigint') return String(value)
  if (Array.isArray(value)) return `[${value.map(exactJson).join(',')}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const members = Object.entries(value).filter(([, item]) => item !== undefined)
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}:${exactJson(item)}`).join(',')}}`
}

export function hasExactIntegers(value: unknown): boolean {
  if (typeof value === 'bigint') return true
  if (Array.isArray(value)) return value.some(hasExactIntegers)
  return isRecord(value) && Object.values(value).some(hasExactIntegers)
}

/** Replaces bigints by the doubles that `JSON.parse` would return. */
export function withPlainIntegers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(withPlainIntegers)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withPlainIntegers(item)]),
  )
}

/** The same JSON with those integers quoted as strings. */
function withQuotedIntegers(json: string): string {
  const found = /"|[0-9]{16,}/g
  let quoted = ''
  let copied = 0
  for (;;) {
    const match = found.exec(json)
    if (match === null) return copied === 0 ? json : quoted + json.slice(copied)
    if (match[0] === '"') {
      found.lastIndex = endOfString(json, match.index)
      continue
    }
    const end = found.lastIndex
    const start = json[match.index - 1] === '-' ? match.index - 1 : match.index
    // Part of a number with a fraction or exponent, which is a double in any case.
    if (/[.eE+]/.test(json[start - 1] ?? '') || /[.eE]/.test(json[end] ?? '')) continue
    const digits = json.slice(start, end)
    if (Number.isSafeInteger(Number(digits))) continue
    quoted += `${json.slice(copied, start)}"${digits}"`
    copied = end
  }
}

/** The position after the closing quote. */
export function endOfString(json: string, open: number): number {
  let at = open + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at + 1
}
