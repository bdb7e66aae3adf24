/**
 * The bytes of a request as JSON, read leniently: raw control characters inside strings and broken UTF-8 are accepted,
 * because clients send them. 64-bit ids keep every digit.
 */
import { BatonError } from '../base/index.ts'
import { isPlainObject } from './plain-fields.ts'

const utf8 = new TextDecoder()

/** Ids of workers are u64 and would lose digits as doubles: they are read as decimal text. */
const WORKER_ID_FIELD =
  /(?<!\\)"(backend_instance_id|prefill_worker_id|decode_worker_id)"\s*:\s*([0-9]{16,20})(?=[\s,}])/g

export function readJsonObject(
  body: Uint8Array,
  contentType: string | undefined,
): Record<string, unknown> {
  if (!isJsonMediaType(contentType)) {
    throw new BatonError(
      'request.unsupported_media',
      'expected a request with content-type application/json',
      { data: { contentType: contentType ?? null } },
    )
  }
  const value = parseLenient(utf8.decode(body))
  if (isPlainObject(value)) return value
  throw new BatonError('request.invalid_argument', 'the JSON body must be an object')
}

/** A missing content type is taken as JSON: that is what it is when a body comes here. */
function isJsonMediaType(contentType: string | undefined): boolean {
  if (contentType === undefined) return true
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase()
  return type === '' || type === 'application/json' || /^application\/[^/]+\+json$/.test(type)
}

function parseLenient(text: string): unknown {
  const exact = text.replace(WORKER_ID_FIELD, '"$1":"$2"')
  try {
    return JSON.parse(exact)
  } catch (strict) {
    const repaired = escapeRawControls(exact)
    if (repaired === exact) throw refusal(strict)
    try {
      return JSON.parse(repaired)
    } catch {
      throw refusal(strict)
    }
  }
}

function refusal(cause: unknown): BatonError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new BatonError('request.invalid_argument', `the body is not valid JSON: ${reason}`, {
    cause,
  })
}

/** Control characters inside string literals as `\u00XX`; outside of strings they are white space or an error. */
function escapeRawControls(text: string): string {
  return text.replace(/"(?:[^"\\]|\\[\s\S])*"/g, (literal) =>
    literal.replace(
      // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
      /[\u0000-\u001f]/g,
      (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  )
}
