/**
 * The most common pre-tokenizers as code over UTF-16 units instead of regular expressions: no string is allocated per
 * piece, so a cached piece costs only a walk over its characters. Each function cuts exactly like its expression;
 * `patternPreTokenizer` chooses by the expression.
 */
import { CLASS, classAt, runEnd, widthAt } from './char-classes.ts'

/** Returns the end of the piece that begins at `at`; `at` is before `end`, the end of the text. */
export interface NextCut {
  (units: Uint16Array, at: number, end: number): number
  /** A word of letters, with at most one blank before it, is always a piece. */
  readonly keepsWords?: boolean
}

const BLANK = 0x20
const APOSTROPHE = 0x27
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const TO_SMALL = 0x20

/** GPT-2: letters, digits or symbols, each with one optional leading blank; `'s` and similar in lower case. */
export const gpt2Cut = keepingWords((units, at, end) => {
  const first = units[at]!
  if (first === APOSTROPHE) {
    const short = shortFormEnd(units, at, end, 0)
    if (short > at) return short
  }
  const start = first === BLANK && at + 1 < end ? at + 1 : at
  const kind = classAt(units, start, end)
  if (kind === CLASS.blank || kind === CLASS.lineEnd) return blanksEnd(units, at, end)
  return runEnd(units, start, end, kind)
})

function keepingWords(cut: NextCut): NextCut {
  return Object.assign(cut, { keepsWords: true })
}

/**
 * Qwen 2, Llama 3 and others: letters with one leading character that is neither letter, digit nor line end; at most
 * `digitsMax` digits; symbols with a leading blank and trailing line ends; `'s` and similar in any case.
 */
export function wordCut(digitsMax: number): NextCut {
  return keepingWords((units, at, end) => {
    const first = units[at]!
    if (first === APOSTROPHE) {
      const short = shortFormEnd(units, at, end, TO_SMALL)
      if (short > at) return short
    }
    const kind = classAt(units, at, end)
    if (kind === CLASS.letter) return runEnd(units, at, end, CLASS.letter)
    if (kind === CLASS.number) return digitsEnd(units, at, end, digitsMax)
    if (kind === CLASS.lineEnd) return blanksWithLinesEnd(units, at, end)
    const after = at + widthAt(units, at, end)
    const next = after < end ? classAt(units, after, end) : 0
    if (next === CLASS.letter) return runEnd(units, after, end, CLASS.letter)
    if (kind === CLASS.other) return signsEnd(units, at, end)
    if (first === BLANK && next === CLASS.other) return signsEnd(units, after, end)
    return blanksWithLinesEnd(units, at, end)
  })
}

function digitsEnd(units: Uint16Array, at: number, end: number, most: number): number {
  let to = at
  for (let count = 0; count < most && to < end; count++) {
    if (classAt(units, to, end) !== CLASS.number) break
    to += widthAt(units, to, end)
  }
  return to
}

function signsEnd(units: Uint16Array, at: number, end: number): number {
  let to = runEnd(units, at, end, CLASS.other)
  while (to < end && isLineEnd(units[to]!)) to++
  return to
}

/** Up to the last line end among the blanks; without one, like `blanksEnd`. */
function blanksWithLinesEnd(units: Uint16Array, at: number, end: number): number {
  let lines = 0
  let to = at
  for (; to < end; to++) {
    const kind = classAt(units, to, end)
    if (kind === CLASS.lineEnd) lines = to + 1
    else if (kind !== CLASS.blank) break
  }
  return lines > 0 ? lines : blanksBefore(at, to, end)
}

function blanksEnd(units: Uint16Array, at: number, end: number): number {
  let to = at
  for (; to < end; to++) {
    const kind = classAt(units, to, end)
    if (kind !== CLASS.blank && kind !== CLASS.lineEnd) break
  }
  return blanksBefore(at, to, end)
}

/** The last blank before a word belongs to the word, unless it is the only one. */
function blanksBefore(at: number, to: number, end: number): number {
  return to < end && to > at + 1 ? to - 1 : to
}

function isLineEnd(unit: number): boolean {
  return unit === LINE_FEED || unit === CARRIAGE_RETURN
}

/** End of `'s 't 'm 'd 're 've 'll`; `at` if it is none of them. */
function shortFormEnd(units: Uint16Array, at: number, end: number, fold: number): number {
  if (at + 1 >= end) return at
  const one = units[at + 1]! | fold
  if (one === 0x73 || one === 0x74 || one === 0x6d || one === 0x64) return at + 2
  if (at + 2 >= end) return at
  const two = units[at + 2]! | fold
  const isForm =
    (one === 0x72 && two === 0x65) ||
    (one === 0x76 && two === 0x65) ||
    (one === 0x6c && two === 0x6c)
  return isForm ? at + 3 : at
}

/** In a SentencePiece vocabulary a run of blanks begins a piece: `▁the▁▁fox` is cut into `▁the`, `▁▁fox`. */
export const markedBlankCut: NextCut = (units, at, end) => {
  let to = at + 1
  while (to < end && (units[to] !== MARKED_BLANK || units[to - 1] === MARKED_BLANK)) to++
  return to
}

const MARKED_BLANK = 0x2581

/** The position before a blank between two ASCII letters: `gpt2Cut`, `wordCut` and NFC never look across it. */
export function isBetweenWords(text: string, at: number): boolean {
  return (
    text.charCodeAt(at) === BLANK &&
    isAsciiLetter(text.charCodeAt(at - 1)) &&
    isAsciiLetter(text.charCodeAt(at + 1))
  )
}

function isAsciiLetter(unit: number): boolean {
  const small = unit | TO_SMALL
  return small >= 0x61 && small <= 0x7a
}

/** The positions where `markedBlankCut` cuts. */
export function isBeforeMarkedBlank(text: string, at: number): boolean {
  return text.charCodeAt(at) === MARKED_BLANK && text.charCodeAt(at - 1) !== MARKED_BLANK
}

export const noCut: NextCut = (_units, _at, end) => end
