/** `GET /v1/models` in the format of OpenAI or Anthropic. */
import { asciiJson } from '../fields/json-escape.ts'

interface ModelEntry {
  readonly name: string
  readonly createdSeconds: number
  readonly contextLength?: number
}

export function modelObject(entry: ModelEntry): Record<string, unknown> {
  return {
    id: entry.name,
    object: 'model',
    created: entry.createdSeconds,
    owned_by: 'baton',
    ...(entry.contextLength === undefined
      ? {}
      : { context_window: entry.contextLength, max_model_len: entry.contextLength }),
  }
}

export function modelListJson(entries: readonly ModelEntry[]): string {
  return asciiJson({ object: 'list', data: entries.map(modelObject) })
}

export function anthropicModelObject(entry: ModelEntry): Record<string, unknown> {
  return {
    type: 'model',
    id: entry.name,
    display_name: entry.name,
    created_at: utcText(entry.createdSeconds),
    lifecycle: 'active',
    ...(entry.contextLength === undefined
      ? {}
      : { max_input_tokens: entry.contextLength, max_tokens: entry.contextLength }),
  }
}

/** All models are on one page. */
export function anthropicModelListJson(entries: readonly ModelEntry[]): string {
  return asciiJson({
    data: entries.map(anthropicModelObject),
    first_id: entries[0]?.name ?? null,
    last_id: entries.at(-1)?.name ?? null,
    has_more: false,
  })
}

/** RFC 3339 text of seconds since 1970; computed with a proleptic calendar whose years begin in March. */
export function utcText(seconds: number): string {
  const shifted = Math.floor(seconds / 86_400) + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const leapDays = Math.floor(dayOfEra / 1460) - Math.floor(dayOfEra / 36_524)
  const yearOfEra = Math.floor((dayOfEra - leapDays - Math.floor(dayOfEra / 146_096)) / 365)
  const daysBefore = 365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100)
  const dayOfYear = dayOfEra - daysBefore
  const march = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * march + 2) / 5) + 1
  const month = march < 10 ? march + 3 : march - 9
  const year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
  const time = [3600, 60, 1].map((unit, i) => Math.floor(seconds / unit) % (i === 0 ? 24 : 60))
  const two = (value: number): string => String(value).padStart(2, '0')
  return `${year}-${two(month)}-${two(day)}T${time.map(two).join(':')}Z`
}
