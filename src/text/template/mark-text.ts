/**
 * The two forms in which a mark (a private-use character) may be in a text: the character itself and a JSON escape, if
 * the template writes ASCII JSON.
 */
export const MARK_FIRST = 0xe000
export const MARK_LAST = 0xf8ff
/** Where a mark may be. */
export const MARK_CANDIDATES = /[\\\uE000-\uF8FF]/g
const BACKSLASH = 0x5c
const ESCAPE_LENGTH = 6

/** The mark at this place, or 0. */
export function markAt(text: string, at: number): number {
  const code = text.charCodeAt(at)
  if (code === BACKSLASH) return escapedMarkAt(text, at)
  return isMark(code) ? code : 0
}

/** UTF-16 units of the mark at this place. */
export function markLengthAt(text: string, at: number): number {
  return text.charCodeAt(at) === BACKSLASH ? ESCAPE_LENGTH : 1
}

function isMark(code: number): boolean {
  return code >= MARK_FIRST && code <= MARK_LAST
}

/** `\ue000`, with letters of either case. */
function escapedMarkAt(text: string, at: number): number {
  if ((text.charCodeAt(at + 1) | 0x20) !== 0x75) return 0
  let code = 0
  for (let digit = at + 2; digit < at + ESCAPE_LENGTH; digit++) {
    const value = hexadecimal(text.charCodeAt(digit))
    if (value < 0) return 0
    code = code * 16 + value
  }
  return isMark(code) ? code : 0
}

function hexadecimal(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = (code | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}
