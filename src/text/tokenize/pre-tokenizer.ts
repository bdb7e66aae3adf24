/**
 * Cuts a text into the pieces within which byte-level BPE may merge. Vocabularies differ in the patterns only; the
 * patterns are applied one after the other, each to the pieces of the one before.
 */
import { compilePattern } from './hugging-face-library.ts'
import { gpt2Cut, wordCut } from './pieces/word-cuts.ts'
import type { NextCut } from './pieces/word-cuts.ts'

export interface PreTokenizer {
  /** The same cuts as `pieces`, sooner; null: there is no code for these patterns. */
  readonly next: NextCut | null
  pieces(text: string): readonly string[]
}

export const GPT2_PATTERN =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const wordPattern = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`

/** What is left between the matches of the first is a single blank, which is a piece of its own either way. */
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

/** A cut by patterns in the syntax of Oniguruma, as a `tokenizer.json` has them. */
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

/** Matches and the stretches between them, in order. */
function cut(text: string, expression: RegExp): readonly string[] {
  const matches = text.match(expression)
  if (matches === null) return [text]
  let length = 0
  for (const match of matches) length += match.length
  // Most patterns leave nothing out, and then the matches are the pieces.
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
