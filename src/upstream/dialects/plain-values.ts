/** Values of a foreign server's JSON: what has not the expected type is not there. */
import { isRecord } from '../../base/index.ts'

export type JsonObject = Readonly<Record<string, unknown>>

export function numberIn(json: unknown, ...path: readonly string[]): number | undefined {
  const value = valueIn(json, path)
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

/** A number of things; what cannot be one is not there. */
export function countIn(json: unknown, ...path: readonly string[]): number | undefined {
  const value = valueIn(json, path)
  return typeof value === 'number' && value >>> 0 === value ? value : undefined
}

export function textIn(json: unknown, ...path: readonly string[]): string | undefined {
  const value = valueIn(json, path)
  return typeof value === 'string' ? value : undefined
}

export function listIn(json: unknown, ...path: readonly string[]): readonly unknown[] {
  const value = valueIn(json, path)
  return Array.isArray(value) ? (value as unknown[]) : []
}

/** Token ids; a list with anything else in it is no list of ids. */
export function idsIn(json: unknown, ...path: readonly string[]): readonly number[] {
  const list = listIn(json, ...path)
  return list.every((id) => typeof id === 'number' && id >>> 0 === id) ? (list as number[]) : []
}

function valueIn(json: unknown, path: readonly string[]): unknown {
  let value = json
  for (const key of path) {
    if (!isRecord(value)) return undefined
    value = value[key]
  }
  return value
}

/** The fields that have a value. */
export function given(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
