/**
 * Detects that JSON of an engine reports a failure although its status was 200, wherever engines put that: beside or
 * instead of the answer, in a choice, in a response.
 */
import { isRecord } from '../../base/index.ts'
import type { JsonRecord } from '../../base/index.ts'

/** Not inside a text, where quotes are escaped; `"error": null` is no failure. */
const NAMES_FAILURE = /(?:^|[^\\])"(?:error"\s*:\s*["{]|object"\s*:\s*"error"|detail"\s*:)/

export function reportsFailure(json: string): boolean {
  if (!NAMES_FAILURE.test(json)) return false
  const value = parsed(json)
  if (!isRecord(value)) return false
  const { object, type, choices, response } = value
  if (object === 'error' || type === 'error' || isProblem(value)) return true
  const places: unknown[] = [value, response]
  if (Array.isArray(choices)) places.push(...(choices as unknown[]))
  return places.some((place) => isRecord(place) && isFault(place['error']))
}

/** The data of a stream event. */
export function dataOf(event: string): string {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data:'))
  return lines.map((line) => line.slice(5)).join('\n')
}

/** The error forms of FastAPI and of RFC 9457; an answer has other fields too. */
function isProblem(value: JsonRecord): boolean {
  return value['detail'] !== undefined && Object.keys(value).every((key) => PROBLEM.has(key))
}

const PROBLEM: ReadonlySet<string> = new Set([
  'detail',
  'status',
  'title',
  'type',
  'instance',
  'code',
  'message',
])

function isFault(error: unknown): boolean {
  return isRecord(error) || (typeof error === 'string' && error !== '')
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}
