/**
 * Escapes text for the inside of a JSON string, in ASCII only: all other characters become `\uXXXX`.
 *
 * An ASCII event can be written to the socket as latin1, the cheapest way through Node. Most tokens need no escape;
 * then the text itself is returned and nothing is allocated.
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

/** Any plain value as ASCII JSON. Not for the per-token path. */
export function asciiJson(value: unknown): string {
  return asciiText(JSON.stringify(value))
}

/** Escapes all non-ASCII characters of a JSON text; these occur only inside strings. */
export function asciiText(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => hexEscape(unit.charCodeAt(0)))
}

/** Worker ids are u64 as decimal text; in JSON they are written as integers with all digits. */
export function withRawWorkerIds(json: string): string {
  return json.replace(/(?<!\\)"(worker_id|workerId)":"([0-9]{1,20})"/g, '"$1":$2')
}

/** The reverse: quotes worker ids, because `JSON.parse` would lose their last digits. */
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
