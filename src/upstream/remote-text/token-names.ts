/**
 * Converts names of tokens in a vocabulary to bytes: `Ġago` (one character per byte, as in GPT-2), or `▁ago` and
 * `<0xF0>` (SentencePiece). A vocabulary uses one notation, and the caller says which.
 */
import { alphabetToBytes } from '../../text/index.ts'

const encoder = new TextEncoder()

/** `names`: of a text with blanks and line ends. */
export function isByteAlphabet(names: readonly string[]): boolean {
  return names.some((name) => /[ĠĊ]/.test(name))
}

export function bytesOfName(name: string, isByteLevel: boolean): Uint8Array {
  if (isByteLevel) return alphabetToBytes(name) ?? encoder.encode(name)
  const single = /^<0x([0-9A-Fa-f]{2})>$/.exec(name)?.[1]
  return single === undefined
    ? encoder.encode(name.replaceAll('▁', ' '))
    : Uint8Array.of(parseInt(single, 16))
}
