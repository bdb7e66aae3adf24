/**
 * Cuts a text into the pieces within which byte-level BPE may merge. Vocabularies differ in the patterns only; the
 * patterns are applied one after the other, each to the pieces of the one before.
 */
import { compilePattern } from './hugging-face-library.ts'

export type PreTokenize = (text: string) => readonly string[]

/** A cut by patterns in the syntax of Oniguruma, as a `tokenizer.json` has them. */
export function patternPreTokenizer(patterns: readonly string[]): PreTokenize {
  const expressions = patterns.map(compilePattern)
  const [only] = expressions
  if (only !== undefined && expressions.length === 1) return (text) => cut(text, only)
  return (text) => {
    let pieces: readonly string[] = [text]
    for (const expression of expressions) pieces = pieces.flatMap((piece) => cut(piece, expression))
    return pieces
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
