/**
 * JSON with every digit of its integers: what a double cannot hold becomes a bigint.
 *
 * For data that is only shown again, such as the arguments of an earlier tool call: an id of 64 bits that a model has
 * written must come back to it as it was. Whoever computes with such values, or writes them with `JSON.stringify`, must know
 * that there may be a bigint (`exactJson` writes it, `withPlainIntegers` rounds it).
 */
import { isRecord } from './is-record.ts'

/** 16 digits are the fewest that may be too many. */
const MANY_DIGITS = /[0-9]{16}/

/** Throws `SyntaxError` as `JSON.parse` does. */
export function parseExactJson(json: string): unknown {
  const wrapped = { json: JSON.parse(json) as unknown }
  const exact = withExactIntegers(wrapped, `{"json":${json}}`, () => true)
  return isRecord(exact) ? exact['json'] : exact
}

/**
 * `value`, which was parsed from `json`, with exact integers below each member that `isExact` names; the same value where
 * there are none.
 */
export function withExactIntegers(
  value: unknown,
  json: string,
  isExact: (owner: Readonly<Record<string, unknown>>, key: string) => boolean,
): unknown {
  if (!MANY_DIGITS.test(json)) return value
  const quoted = withQuotedIntegers(json)
  if (quoted === json) return value
  // No mark in the text could tell such a number from a string of the user; the two trees beside each other do.
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

/** As `JSON.stringify`, of plain data in which there may be a bigint. */
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

/** With the doubles that `JSON.parse` makes of such integers. */
export function withPlainIntegers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(withPlainIntegers)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withPlainIntegers(item)]),
  )
}

/** The same JSON with those integers as strings. */
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
    // Part of a number with a fraction or an exponent: a double is all that anybody makes of it.
    if (/[.eE+]/.test(json[start - 1] ?? '') || /[.eE]/.test(json[end] ?? '')) continue
    const digits = json.slice(start, end)
    if (Number.isSafeInteger(Number(digits))) continue
    quoted += `${json.slice(copied, start)}"${digits}"`
    copied = end
  }
}

/** The position behind the closing quote. */
export function endOfString(json: string, open: number): number {
  let at = open + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at + 1
}
