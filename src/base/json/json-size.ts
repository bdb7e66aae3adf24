/**
 * The size of JSON, measured without parsing it: how deep it is nested and how many values it has. Parsing, validating
 * and rendering JSON cost time and memory per value, so JSON of others is measured first, in a body and in strings.
 */
export interface JsonSize {
  readonly depth: number
  /** Numbers that follow a comma: elements of a list of numbers. */
  readonly numbers: number
  /** Other values that follow a comma, and lists and objects that do not. */
  readonly values: number
  /** Every bracket is closed; otherwise it is not JSON. */
  readonly isClosed: boolean
}

export interface JsonLimits {
  readonly depth: number
  readonly numbers: number
  readonly values: number
}

/** Deeper values overflow the stack of code that walks through them. */
export const JSON_DEPTH_MAX = 1000

const utf8 = new TextEncoder()

/** Bytes are UTF-8. All relevant characters are ASCII, and bytes of multi-byte characters never equal them. */
export function sizeOfJson(given: Uint8Array | string): JsonSize {
  const json = typeof given === 'string' ? utf8.encode(given) : given
  let open = 0
  let depth = 0
  let numbers = 0
  let values = 0
  let isInside = false
  // The value that begins here was counted with the comma before it.
  let isCounted = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] as number
    if (isInside) {
      if (byte === BACKSLASH) at++
      else if (byte === QUOTE) isInside = false
    } else if (byte === QUOTE) {
      isInside = true
      isCounted = false
      at = beforeEndOfText(json, at)
    } else if (byte === COMMA) {
      if (beginsNumber(json[at + 1] === SPACE ? json[at + 2] : json[at + 1])) numbers++
      else values++
      isCounted = true
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      if (!isCounted) values++
      isCounted = false
      open++
      if (open > depth) depth = open
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) open--
  }
  return { depth, numbers, values, isClosed: open === 0 && !isInside }
}

/** What exceeds its limit, as the end of a sentence about the JSON; null: nothing. */
export function excessOfJson(size: JsonSize, most: JsonLimits): string | null {
  if (size.depth > most.depth) return `is nested more than ${most.depth} deep`
  if (size.numbers > most.numbers) return `lists more than ${most.numbers} numbers`
  if (size.values > most.values) return `holds more than ${most.values} values`
  return null
}

/** Searching with the runtime's help pays off for longer strings only. */
const SHORT_BYTES = 32

/**
 * The byte before the closing quote, or the first escape, of the string that begins at `at`; or an earlier byte of it.
 * A long string without escapes is skipped at once.
 */
function beforeEndOfText(json: Uint8Array, at: number): number {
  for (let next = at + 1; next < at + SHORT_BYTES; next++) {
    if (json[next] === QUOTE || json[next] === BACKSLASH) return next - 1
  }
  const end = json.indexOf(QUOTE, at + SHORT_BYTES)
  return end === -1 || json[end - 1] === BACKSLASH ? at : end - 1
}

function beginsNumber(byte: number | undefined): boolean {
  return byte !== undefined && ((byte >= 0x30 && byte <= 0x39) || byte === 0x2d)
}

const QUOTE = 0x22
const COMMA = 0x2c
const SPACE = 0x20
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
