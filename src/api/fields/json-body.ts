/**
 * The bytes of a request as JSON, read leniently: raw control characters inside strings and broken UTF-8 are accepted,
 * because clients send them. 64-bit ids keep every digit.
 */
import { BatonError, isRecord, withExactIntegers } from '../../base/index.ts'
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
  if (body.length > SMALL_BYTES) refuseUnwieldy(body)
  const value = parseLenient(body)
  if (isRecord(value)) return value
  throw new BatonError('request.invalid_argument', 'the JSON body must be an object')
}

/** A missing content type is taken as JSON: that is what it is when a body comes here. */
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

/** Fields that hold schemas: what they list is shown to the model and may have to come back. */
const SCHEMAS = new Set([
  'tools',
  'response_format',
  'guided_json',
  'structured_outputs',
  'text',
  'output_format',
  'output_config',
])

/**
 * What a tool was called with, and schemas, keep every digit: `input` of Anthropic, `arguments` that are an object, tools, shapes of
 * output.
 */
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
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new BatonError('request.invalid_argument', `the body is not valid JSON: ${reason}`, {
    cause,
  })
}

const NESTING_MAX = 1000
/** Below it nothing takes long, and nothing is nested deeper. */
const SMALL_BYTES = NESTING_MAX
/** More ids of tokens than any context holds. */
const NUMBERS_MAX = 4 * 1024 * 1024
/** Members and elements that are no plain number of a list: each is looked at by a schema. */
const VALUES_MAX = 256 * 1024

/**
 * Megabytes of opening brackets, or of tiny values, take seconds to parse and to check, and nobody else is served
 * meanwhile.
 */
function refuseUnwieldy(body: Uint8Array): void {
  let depth = 0
  let numbers = 0
  let values = 0
  let isInside = false
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number
    if (byte === QUOTE) {
      isInside = !isInside
      // A long text is passed over at once, if nothing in it is escaped.
      if (isInside) at = beforeEndOfText(body, at)
    } else if (isInside) {
      if (byte === BACKSLASH) at++
    } else if (byte === COMMA) {
      if (beginsNumber(body[at + 1] === SPACE ? body[at + 2] : body[at + 1])) numbers++
      else values++
    } else if (byte === 0x5b || byte === 0x7b) {
      depth++
      if (depth > NESTING_MAX) throw unwieldy(`is nested more than ${NESTING_MAX} deep`)
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  if (numbers > NUMBERS_MAX) throw unwieldy(`lists more than ${NUMBERS_MAX} numbers`)
  if (values > VALUES_MAX) throw unwieldy(`holds more than ${VALUES_MAX} values`)
}

/** The byte before the closing quote of the text that begins at `at`; `at` itself where that is not sure. */
function beforeEndOfText(body: Uint8Array, at: number): number {
  const end = body.indexOf(QUOTE, at + 1)
  return end === -1 || body[end - 1] === BACKSLASH ? at : end - 1
}

function beginsNumber(byte: number | undefined): boolean {
  return byte !== undefined && ((byte >= 0x30 && byte <= 0x39) || byte === 0x2d)
}

function unwieldy(what: string): BatonError {
  return new BatonError('request.invalid_argument', `the JSON body ${what}`)
}

const QUOTE = 0x22
const COMMA = 0x2c
const SPACE = 0x20
const BACKSLASH = 0x5c
const HEX = '0123456789abcdef'

/**
 * Control characters inside string literals as `\u00XX`; outside of strings they are white space or an error. Byte by byte,
 * because a body may be long and made to be slow: what is looked at is ASCII, and a byte of UTF-8 beyond it never is.
 */
function escapeRawControls(body: Uint8Array): Uint8Array {
  const count = writeEscaped(body, null)
  if (count === 0) return body
  const out = new Uint8Array(body.length + 5 * count)
  writeEscaped(body, out)
  return out
}

/** Returns how many control characters there are in strings; without `out` that is all it does. */
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
