/** Reads values of a foreign server's JSON; a value of an unexpected type counts as absent. */
import { isRecord, isU32 } from '../../base/index.ts'

export type JsonObject = Readonly<Record<string, unknown>>

export function numberIn(json: unknown, ...path: readonly string[]): number | undefined {
  const value = valueIn(json, path)
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

/** A count; a number that cannot be a count is absent. */
export function countIn(json: unknown, ...path: readonly string[]): number | undefined {
  const value = valueIn(json, path)
  return isU32(value) ? value : undefined
}

export function textIn(json: unknown, ...path: readonly string[]): string | undefined {
  const value = valueIn(json, path)
  return typeof value === 'string' ? value : undefined
}

export function listIn(json: unknown, ...path: readonly string[]): readonly unknown[] {
  const value = valueIn(json, path)
  return Array.isArray(value) ? (value as unknown[]) : []
}

/** Token ids; a list that contains anything else is not a list of ids. */
export function idsIn(json: unknown, ...path: readonly string[]): readonly number[] {
  const list = listIn(json, ...path)
  return list.every(isU32) ? (list as number[]) : []
}

export function valueIn(json: unknown, path: readonly string[]): unknown {
  let value = json
  for (const key of path) {
    if (!isRecord(value)) return undefined
    value = value[key]
  }
  return value
}

/** Only the fields that have a value. */
export function given(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
