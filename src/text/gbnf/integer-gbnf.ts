/** Integers within bounds as GBNF, digit by digit, so that any range needs only a few lines. No surrounding blanks. */

/** Up to here doubles represent all integers exactly, and a grammar needs a limit. */
export const DIGITS_MAX = 15
export const INTEGER_MAX = 999_999_999_999_999

/** From `least` to `most`, both within ±`INTEGER_MAX`; null: the range is empty. */
export function integerBetween(least: number, most: number): string | null {
  const options: string[] = []
  if (least < 0) {
    const negative = naturalBetween(Math.max(1, -most), -least)
    if (negative !== null) options.push(`"-" ${negative}`)
  }
  const natural = naturalBetween(Math.max(0, least), most)
  if (natural !== null) options.push(natural)
  return options.length === 0 ? null : group(options)
}

/** From 0 on, without leading zeros. */
export function naturalBetween(least: number, most: number): string | null {
  if (least > most || most < 0) return null
  const options: string[] = []
  for (let length = String(least).length; length <= String(most).length; length++) {
    const low = Math.max(least, length === 1 ? 0 : 10 ** (length - 1))
    const high = Math.min(most, 10 ** length - 1)
    options.push(digitsBetween(String(low), String(high)))
  }
  return group(options)
}

/** `low` and `high` have the same length. */
function digitsBetween(low: string, high: string): string {
  if (low === high) return low === '' ? '""' : `"${low}"`
  const rest = low.length - 1
  if (isAll(low, '0') && isAll(high, '9')) return anyDigits(rest + 1)
  const first = Number(low[0])
  const last = Number(high[0])
  const lowRest = low.slice(1)
  const highRest = high.slice(1)
  if (first === last) return `"${first}" ${digitsBetween(lowRest, highRest)}`
  const options: string[] = []
  const from = isAll(lowRest, '0') ? first : first + 1
  const to = isAll(highRest, '9') ? last : last - 1
  if (from > first) options.push(`"${first}" ${digitsBetween(lowRest, '9'.repeat(rest))}`)
  if (from <= to) options.push(`${digit(from, to)} ${anyDigits(rest)}`.trim())
  if (to < last) options.push(`"${last}" ${digitsBetween('0'.repeat(rest), highRest)}`)
  return group(options)
}

export function digit(from: number, to: number): string {
  return from === to ? `"${from}"` : `[${from}-${to}]`
}

function anyDigits(count: number): string {
  if (count === 0) return ''
  return count === 1 ? '[0-9]' : `[0-9]{${count}}`
}

function isAll(text: string, character: string): boolean {
  return text === character.repeat(text.length)
}

function group(options: readonly string[]): string {
  return options.length === 1 && options[0] !== undefined
    ? options[0]
    : `( ${options.join(' | ')} )`
}
