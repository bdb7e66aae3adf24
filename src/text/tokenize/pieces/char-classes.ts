/**
 * What a character is to a pre-tokenizer, from a table: asking a regular expression for each one is what takes the time.
 * The table is filled page by page with what such expressions say, so it agrees with them.
 */
export const CLASS = { other: 1, letter: 2, number: 3, blank: 4, lineEnd: 5 } as const

const LETTER = /^\p{L}$/u
const NUMBER = /^\p{N}$/u
const BLANK = /^\p{White_Space}$/u

const PAGE = 256
const PLANE_UNITS = 0x10000
/** Of the first plane, by unit; 0: not known yet. */
const classes = new Uint8Array(PLANE_UNITS)

/** Class of the character that begins at `at`; one of two units is told by its first. */
export function classAt(units: Uint16Array, at: number, end: number): number {
  const unit = units[at]!
  const known = classes[unit]!
  return known !== 0 ? known : learn(units, at, end)
}

/** How many units the character takes that begins at `at`. */
export function widthAt(units: Uint16Array, at: number, end: number): number {
  return isPair(units, at, end) ? 2 : 1
}

/** The end of the characters of one class that begin at `at`. */
export function runEnd(units: Uint16Array, at: number, end: number, kind: number): number {
  let to = at
  for (;;) {
    while (to < end && classes[units[to]!] === kind) to++
    // The end, another class, half of a pair or a character of a page that is not there yet.
    if (to === end || classAt(units, to, end) !== kind) return to
    to += widthAt(units, to, end)
  }
}

function isPair(units: Uint16Array, at: number, end: number): boolean {
  return (units[at]! & 0xfc00) === 0xd800 && at + 1 < end && (units[at + 1]! & 0xfc00) === 0xdc00
}

function learn(units: Uint16Array, at: number, end: number): number {
  const unit = units[at]!
  // Halves of pairs stay unknown: what they are depends on the other half.
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
