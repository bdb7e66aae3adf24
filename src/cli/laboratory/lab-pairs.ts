/**
 * Parses `name=value,name=value` on the command line and checks the names.
 */
import { BatonError } from '../../base/index.ts'

/** Throws `config.invalid` that names the flag. */
export function parsePairs(
  flag: string,
  text: string,
  known: readonly string[] | null = null,
): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>()
  for (const pair of text.split(',').filter((part) => part.trim() !== '')) {
    const at = pair.indexOf('=')
    const name = pair.slice(0, at).trim()
    if (at < 1) throw refusal(flag, `'${pair}': expected name=value`)
    if (pair.slice(at + 1).trim() === '') throw refusal(flag, `'${pair}': expected a value`)
    if (known !== null && !known.includes(name))
      throw refusal(flag, `unknown name '${name}': expected one of ${known.join(', ')}`)
    pairs.set(name, pair.slice(at + 1).trim())
  }
  return pairs
}

/** Converts text as YAML would: to true or false, a number, or text. */
export function saidValue(text: string): boolean | number | string {
  if (text === 'true' || text === 'false') return text === 'true'
  const number = Number(text)
  return Number.isNaN(number) ? text : number
}

export function refusal(flag: string, why: string): BatonError {
  return new BatonError('config.invalid', `${flag}: ${why}`, { data: { option: flag } })
}

export function numberOf(flag: string, value: unknown, least = 0): number {
  const number = typeof value === 'number' ? value : Number(value)
  if (String(value).trim() !== '' && Number.isFinite(number) && number >= least) return number
  throw refusal(flag, `${JSON.stringify(value)} is invalid: expected a number of at least ${least}`)
}

export function aboveZero(flag: string, value: unknown): number {
  const number = numberOf(flag, value)
  if (number > 0) return number
  throw refusal(flag, `${JSON.stringify(value)} is invalid: expected a number above 0`)
}

export function shareOf(flag: string, value: unknown): number {
  const share = numberOf(flag, value)
  if (share <= 1) return share
  throw refusal(flag, `${JSON.stringify(value)} is invalid: expected a share from 0 to 1`)
}

export function wholeOf(flag: string, value: unknown, least = 0): number {
  const number = numberOf(flag, value, least)
  if (Number.isSafeInteger(number)) return number
  throw refusal(flag, `${JSON.stringify(value)} is invalid: expected a whole number`)
}
