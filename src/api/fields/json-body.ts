/**
 * Parses a request body as JSON, leniently: raw control characters inside strings and invalid UTF-8 are accepted,
 * because clients send them. 64-bit integers keep all digits.
 */
import { BatonError, excessOfJson, isRecord, JSON_DEPTH_MAX, messageOf } from '../../base/index.ts'
import { sizeOfJson, withExactIntegers } from '../../base/index.ts'
import { exactWorkerIds } from './worker-id-digits.ts'

const utf8 = new TextDecoder()

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
  refuseUnwieldy(body)
  const value = parseLenient(body)
  if (isRecord(value)) return value
  throw new BatonError('request.invalid_argument', 'the JSON body must be an object')
}

/** A missing content type is treated as JSON. */
function isJsonMediaType(contentType: string | undefined): boolean {
  if (contentType === undefined) return true
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase()
  return type === '' || type === 'application/json' || /^application\/[^/]+\+json$/.test(type)
}

function parseLenient(body: Uint8Array): unknown {
  try {
    return parseExact(body)
  } catch (strict) {
    const repaired = escapeRawControls(body)
    if (repaired === body) throw refusal(strict)
    try {
      return parseExact(repaired)
    } catch {
      throw refusal(strict)
    }
  }
}

function parseExact(body: Uint8Array): unknown {
  const text = utf8.decode(body)
  return exactWorkerIds(exactIntegers(JSON.parse(text), text), text)
}

/** Fields that contain schemas, whose values are shown to the model and may be returned. */
const SCHEMAS = new Set([
  'tools',
  'response_format',
  'guided_json',
  'structured_outputs',
  'text',
  'output_format',
  'output_config',
])

/** Arguments of tool calls (`input` of Anthropic, `arguments` given as an object) and schemas keep all digits. */
function exactIntegers(value: unknown, text: string): unknown {
  if (!isRecord(value)) return value
  return withExactIntegers(
    value,
    text,
    (owner, key) =>
      (owner === value && SCHEMAS.has(key)) ||
      (key === 'input' && owner['type'] === 'tool_use') ||
      (key === 'arguments' && typeof owner['name'] === 'string'),
  )
}

function refusal(cause: unknown): BatonError {
  const reason = messageOf(cause)
  return new BatonError('request.invalid_argument', `the body is not valid JSON: ${reason}`, {
    cause,
  })
}

/** More token ids than any context holds. */
const NUMBERS_MAX = 4 * 1024 * 1024
/** Limit for values that are not plain numbers of a list, since each is validated by a schema. */
const VALUES_MAX = 256 * 1024
const LIMITS = { depth: JSON_DEPTH_MAX, numbers: NUMBERS_MAX, values: VALUES_MAX }
/** Smaller bodies cannot be slow or nested too deeply. */
const SMALL_BYTES = JSON_DEPTH_MAX

/**
 * Refuses bodies whose parsing or validation would block the event loop for seconds: megabytes of opening brackets,
 * or of tiny values.
 */
export function refuseUnwieldy(body: Uint8Array): void {
  if (body.length <= SMALL_BYTES) return
  const excess = excessOfJson(sizeOfJson(body), LIMITS)
  if (excess === null) return
  throw new BatonError('request.invalid_argument', `the JSON body ${excess}`)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const HEX = '0123456789abcdef'

/**
 * Escapes control characters inside strings as `\u00XX`; outside of strings they are white space or an error. Works
 * on bytes with linear cost: all relevant characters are ASCII, and bytes of multi-byte characters never equal them.
 */
function escapeRawControls(body: Uint8Array): Uint8Array {
  const count = writeEscaped(body, null)
  if (count === 0) return body
  const out = new Uint8Array(body.length + 5 * count)
  writeEscaped(body, out)
  return out
}

/** Returns the number of control characters in strings; without `out` it only counts. */
function writeEscaped(body: Uint8Array, out: Uint8Array | null): number {
  let count = 0
  let length = 0
  let isInside = false
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number
    if (isInside && byte < 0x20) {
      count++
      if (out !== null) {
        out[length++] = BACKSLASH
        out[length++] = 0x75
        out[length++] = 0x30
        out[length++] = 0x30
        out[length++] = 0x30 + (byte >> 4)
        out[length++] = HEX.charCodeAt(byte & 15)
      }
      continue
    }
    if (out !== null) out[length++] = byte
    if (byte === QUOTE) isInside = !isInside
    else if (isInside && byte === BACKSLASH && at + 1 < body.length) {
      at++
      if (out !== null) out[length++] = body[at] as number
    }
  }
  return count
}
