/**
 * Text as the inside of a JSON string, in ASCII only: everything else becomes `\uXXXX`.
 *
 * An event that is ASCII can be written to the socket as latin1, which is the cheapest way through Node. The common
 * token needs no escape at all; then the text itself is returned and nothing is allocated.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c

const SHORT: Readonly<Record<number, string>> = {
  0x08: '\\b',
  0x09: '\\t',
  0x0a: '\\n',
  0x0c: '\\f',
  0x0d: '\\r',
  [QUOTE]: '\\"',
  [BACKSLASH]: '\\\\',
}

export function escapeJson(text: string): string {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH) {
      return escapeFrom(text, i)
    }
  }
  return text
}

/** A JSON string literal with its quotes. */
export function quoteJson(text: string): string {
  return `"${escapeJson(text)}"`
}

/** Any plain value as JSON text in ASCII. For what is not on the token's way. */
export function asciiJson(value: unknown): string {
  return asciiText(JSON.stringify(value))
}

/** JSON text with everything beyond ASCII escaped: outside of strings there is nothing of that kind. */
export function asciiText(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => hexEscape(unit.charCodeAt(0)))
}

/** Worker ids are u64 kept as decimal text; in JSON they are integers with all their digits. */
export function withRawWorkerIds(json: string): string {
  return json.replace(/(?<!\\)"(worker_id|workerId)":"([0-9]{1,20})"/g, '"$1":$2')
}

/** The other way: what JSON has as an integer becomes text, of which `JSON.parse` would lose the last digits. */
export function withQuotedWorkerIds(json: string): string {
  return json.replace(/(?<!\\)"([a-z_]*worker_id|workerId)":\s*([0-9]{1,20})/g, '"$1":"$2"')
}

function escapeFrom(text: string, start: number): string {
  let out = text.slice(0, start)
  for (let i = start; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit >= 0x20 && unit <= 0x7e && unit !== QUOTE && unit !== BACKSLASH) out += text[i]
    else out += SHORT[unit] ?? hexEscape(unit)
  }
  return out
}

function hexEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}
