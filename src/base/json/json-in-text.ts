/** Reads JSON that comes as a text inside other JSON, such as the arguments of a tool call. */
import { isRecord } from '../is-record.ts'
import { parseExactJson } from './exact-json.ts'
import { JSON_DEPTH_MAX, sizeOfJson } from './json-size.ts'
import type { JsonSize } from './json-size.ts'

const BEGINS_OBJECT = /^[ \t\r\n]*\{/

/**
 * The object that a text of JSON has; null: it is something else, because a model may have written anything. A text that
 * may be too large is measured first, since parsing costs time and memory per value: `mayParse` returns false, or throws,
 * if it is. Shorter texts cannot be nested too deeply or have many values.
 */
export function objectInJson(
  text: string,
  mayParse: (size: JsonSize) => boolean,
): Record<string, unknown> | null {
  if (!BEGINS_OBJECT.test(text)) return null
  if (text.length > JSON_DEPTH_MAX) {
    const size = sizeOfJson(text)
    if (!size.isClosed || !mayParse(size)) return null
  }
  try {
    const value = parseExactJson(text)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}
