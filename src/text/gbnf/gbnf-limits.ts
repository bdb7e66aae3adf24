/**
 * Limits for grammars from clients. llama.cpp's parser is recursive and crashes the process on stack overflow; very
 * many alternatives and repetitions take it seconds and gigabytes.
 */
import { GrammarTooLarge } from './grammar-refusal.ts'

export const GBNF_LENGTH_MAX = 256 * 1024
const DEPTH_MAX = 64
const ALTERNATIVES_MAX = 5000
/** llama.cpp expands repetitions. */
const REPETITIONS_MAX = 100_000

/** Throws `request.invalid_argument`. */
export function checkGbnf(gbnf: string): void {
  if (gbnf.length > GBNF_LENGTH_MAX) throw tooMuch(`${gbnf.length} characters`, GBNF_LENGTH_MAX)
  let depth = 0
  let alternatives = 0
  let repetitions = 0
  for (let at = 0; at < gbnf.length; at++) {
    const character = gbnf[at]
    if (character === '"') at = endOf(gbnf, at, '"')
    else if (character === '[') at = endOf(gbnf, at, ']')
    else if (character === '#') at = endOf(gbnf, at, '\n')
    else if (character === '(') depth += 1
    else if (character === ')') depth -= 1
    else if (character === '|') alternatives += 1
    else if (character === '{') repetitions += largestCount(gbnf, at)
    if (depth > DEPTH_MAX) throw tooMuch('nested groups', DEPTH_MAX)
  }
  if (alternatives > ALTERNATIVES_MAX)
    throw tooMuch(`${alternatives} alternatives`, ALTERNATIVES_MAX)
  if (repetitions > REPETITIONS_MAX) throw tooMuch(`${repetitions} repetitions`, REPETITIONS_MAX)
}

/** Of `{2,5}` the 5, of `{2,}` the 2. */
function largestCount(gbnf: string, at: number): number {
  const counts = /^\{\s*(\d{1,9})\s*,?\s*(\d{0,9})/.exec(gbnf.slice(at, at + 40))
  return counts === null ? 0 : Math.max(Number(counts[1]), Number(counts[2]))
}

/** The end of the literal, character class or comment that begins at `from`. */
function endOf(gbnf: string, from: number, end: string): number {
  for (let at = from + 1; at < gbnf.length; at++) {
    if (gbnf[at] === '\\' && end !== '\n') at += 1
    else if (gbnf[at] === end) return at
  }
  return gbnf.length
}

/** Before the grammar is written: a list of choices may be as long as the body of a request. */
export function checkChoices(choices: readonly string[]): void {
  if (choices.length > ALTERNATIVES_MAX)
    throw tooMuch(`${choices.length} alternatives`, ALTERNATIVES_MAX)
  const length = choices.reduce((sum, choice) => sum + choice.length, 0)
  if (length > GBNF_LENGTH_MAX) throw tooMuch(`${length} characters`, GBNF_LENGTH_MAX)
}

function tooMuch(what: string, limit: number): GrammarTooLarge {
  return new GrammarTooLarge(`the grammar is too large: ${what}, the limit is ${limit}`)
}
