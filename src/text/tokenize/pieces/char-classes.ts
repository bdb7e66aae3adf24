/**
 * The class of each character for pre-tokenizers, from a table: testing a regular expression per character would
 * dominate the time. The table is filled page by page from such expressions, so it agrees with them.
 */
export const CLASS = { other: 1, letter: 2, number: 3, blank: 4, lineEnd: 5 } as const

const LETTER = /^\p{L}$/u
const NUMBER = /^\p{N}$/u
const BLANK = /^\p{White_Space}$/u

const PAGE = 256
const PLANE_UNITS = 0x10000
/** Classes of the BMP by UTF-16 unit; 0: not known yet. */
const classes = new Uint8Array(PLANE_UNITS)

/** Class of the character at `at`; for a surrogate pair by its first unit. */
export function classAt(units: Uint16Array, at: number, end: number): number {
  const unit = units[at]!
  const known = classes[unit]!
  return known !== 0 ? known : learn(units, at, end)
}

/** Number of UTF-16 units of the character at `at`. */
export function widthAt(units: Uint16Array, at: number, end: number): number {
  return isPair(units, at, end) ? 2 : 1
}

/** End of the run of characters of one class that begins at `at`. */
export function runEnd(units: Uint16Array, at: number, end: number, kind: number): number {
  let to = at
  for (;;) {
    while (to < end && classes[units[to]!] === kind) to++
    // The end, another class, a surrogate, or a character of a page that is not filled yet.
    if (to === end || classAt(units, to, end) !== kind) return to
    to += widthAt(units, to, end)
  }
}

function isPair(units: Uint16Array, at: number, end: number): boolean {
  return (units[at]! & 0xfc00) === 0xd800 && at + 1 < end && (units[at + 1]! & 0xfc00) === 0xdc00
}

function learn(units: Uint16Array, at: number, end: number): number {
  const unit = units[at]!
  // Surrogates stay unknown: their class depends on the other half.
  if ((unit & 0xf800) === 0xd800) {
    return isPair(units, at, end) ? classOf(String.fromCharCode(unit, units[at + 1]!)) : CLASS.other
  }
  const first = unit - (unit % PAGE)
  for (let code = first; code < first + PAGE; code++) {
    classes[code] = classOf(String.fromCharCode(code))
  }
  return classes[unit]!
}

function classOf(character: string): number {
  if (character === '\n' || character === '\r') return CLASS.lineEnd
  if (LETTER.test(character)) return CLASS.letter
  if (NUMBER.test(character)) return CLASS.number
  return BLANK.test(character) ? CLASS.blank : CLASS.other
}
