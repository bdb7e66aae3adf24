/** Helpers to read values of unknown shape from a model's JSON files; errors name the place. */
import { isRecord } from '../is-record.ts'

export type JsonRecord = Readonly<Record<string, unknown>>

export function recordOf(value: unknown, place: string): JsonRecord {
  if (!isRecord(value)) throw new Error(`${place} is not an object`)
  return value
}

export function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new Error(`expected text, found ${typeof value}`)
  return value
}

/** A token in `tokenizer_config.json`: its text, or an object with the text as `content`. */
export function nameOfToken(value: unknown): string | null {
  if (typeof value === 'string') return value
  return isRecord(value) && typeof value['content'] === 'string' ? value['content'] : null
}
