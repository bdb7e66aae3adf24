/**
 * Bytes with some of their spans written anew. All other bytes stay as they are.
 */
import type { Span } from '../http/json-members.ts'

interface Replacement {
  readonly span: Span
  readonly text: string
}

/** The spans must not overlap. */
export function replacedSpans(bytes: Uint8Array, replacements: readonly Replacement[]): Uint8Array {
  const encoder = new TextEncoder()
  const pieces: Uint8Array[] = []
  let from = 0
  for (const { span, text } of replacements.toSorted((a, b) => a.span.start - b.span.start)) {
    pieces.push(bytes.subarray(from, span.start), encoder.encode(text))
    from = span.end
  }
  pieces.push(bytes.subarray(from))
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
