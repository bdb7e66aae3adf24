/**
 * Cuts a text into the pieces within which byte-level BPE may merge. Vocabularies differ only in the patterns; each
 * pattern is applied to the pieces of the previous one.
 */
import { compilePattern } from './hugging-face-library.ts'
import { gpt2Cut, wordCut } from './pieces/word-cuts.ts'
import type { NextCut } from './pieces/word-cuts.ts'

export interface PreTokenizer {
  /** A faster function with the same cuts as `pieces`; null: these patterns have none. */
  readonly next: NextCut | null
  pieces(text: string): readonly string[]
}

export const GPT2_PATTERN =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const wordPattern = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`

/** Between matches of the first pattern only single blanks remain, which are pieces of their own in both cases. */
const CODED: readonly (readonly [string, NextCut])[] = [
  [GPT2_PATTERN, gpt2Cut],
  [GPT2_PATTERN.slice(0, GPT2_PATTERN.lastIndexOf('|')), gpt2Cut],
  [wordPattern('\\p{N}'), wordCut(1)],
  [wordPattern('\\p{N}{1,3}'), wordCut(3)],
  [wordPattern('\\p{N}+'), wordCut(Infinity)],
]

let coded: ReadonlyMap<string, NextCut> | null = null

function codedCut(expression: RegExp): NextCut | null {
  coded ??= new Map(CODED.map(([pattern, cut]) => [compilePattern(pattern).source, cut]))
  return coded.get(expression.source) ?? null
}

/** Cuts by patterns in Oniguruma syntax, as in a `tokenizer.json`. */
export function patternPreTokenizer(patterns: readonly string[]): PreTokenizer {
  const expressions = patterns.map(compilePattern)
  const [only] = expressions
  if (only !== undefined && expressions.length === 1) {
    return { next: codedCut(only), pieces: (text) => cut(text, only) }
  }
  return {
    next: null,
    pieces: (text) => {
      let pieces: readonly string[] = [text]
      for (const expression of expressions)
        pieces = pieces.flatMap((piece) => cut(piece, expression))
      return pieces
    },
  }
}

/** Matches and the text between them, in order. */
function cut(text: string, expression: RegExp): readonly string[] {
  const matches = text.match(expression)
  if (matches === null) return [text]
  let length = 0
  for (const match of matches) length += match.length
  // Most patterns match everything, so the matches are the pieces.
  return length === text.length ? matches : cutWithGaps(text, expression)
}

function cutWithGaps(text: string, expression: RegExp): string[] {
  const pieces: string[] = []
  let end = 0
  for (const match of text.matchAll(expression)) {
    if (match[0].length === 0) continue
    if (match.index > end) pieces.push(text.slice(end, match.index))
    pieces.push(match[0])
    end = match.index + match[0].length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}
