/**
 * Replaces spans of bytes; all other bytes are kept.
 */
import { joinedBytes } from '../../base/index.ts'
import type { Span } from './json-members.ts'

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
  return joinedBytes(pieces)
}
