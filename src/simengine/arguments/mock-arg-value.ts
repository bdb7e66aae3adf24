/** Readers of single arguments: each returns the typed value or refuses it by name (`config.invalid`). */
import { BatonError } from '../../base/index.ts'

export function refuse(name: string, value: unknown, wanted: string): never {
  const got = JSON.stringify(value) ?? 'nothing'
  const shown = got.length > 80 ? `${got.slice(0, 80)}…` : got
  throw new BatonError('config.invalid', `${name} must be ${wanted}, got ${shown}`, {
    data: { option: name },
  })
}

export function textOf(name: string, value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : refuse(name, value, 'a text')
}

export function oneOf<const T extends string>(
  name: string,
  value: unknown,
  accepted: readonly T[],
): T {
  const lower = typeof value === 'string' ? value.toLowerCase() : ''
  const found = accepted.find((word) => word === lower)
  return found ?? refuse(name, value, accepted.join(', '))
}

export function flagOf(name: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse(name, value, 'true or false')
}

export function numberOf(name: string, value: unknown, least: number, most = Infinity): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= least && value <= most)
    return value
  const bounds = most === Infinity ? `≥ ${least}` : `from ${least} to ${most}`
  return refuse(name, value, `a number ${bounds}`)
}

export function countOf(name: string, value: unknown, least: number, most = Infinity): number {
  return Number.isSafeInteger(numberOf(name, value, least, most))
    ? (value as number)
    : refuse(name, value, 'a whole number')
}

export function numbersOf(name: string, value: unknown): readonly number[] {
  if (!Array.isArray(value)) return refuse(name, value, 'a list of numbers')
  return value.map((each, i) => numberOf(`${name}[${i}]`, each, -Infinity))
}
