/**
 * Names of tokens as vocabularies write them, to bytes: `Ġago` (a character for each byte, as GPT-2 does it), or `▁ago` and
 * `<0xF0>` (SentencePiece). One vocabulary is written in one way: who reads it says which.
 */
import { alphabetToBytes } from '../../text/index.ts'

const encoder = new TextEncoder()

/** Of the names of a text with blanks and line ends. */
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
