/**
 * Identity of pictures and other media inside a prompt.
 *
 * Owns: identifier → 64-bit hash, and hash → pad value that takes the place of the placeholder tokens, so that a
 * router that sees no pixels still tells two prompts with different pictures apart.
 */
import type { HashPair } from './hash-pair.ts'
import { xxh3Text } from './xxh3.ts'

const PAD_BASE = 1_000_000
const PAD_MASK = 0x3fffffff

/** Null for the empty identifier; of a 64-digit hexadecimal digest its first 16 digits, else a hash of the text. */
export function hashMediaId(identifier: string): HashPair | null {
  if (identifier === '') return null
  if (/^[0-9a-fA-F]{64}$/.test(identifier)) {
    return [parseInt(identifier.slice(8, 16), 16), parseInt(identifier.slice(0, 8), 16)]
  }
  return xxh3Text(identifier)
}

/** The token that stands for a picture in the routing tokens (the same rule as SGLang's). */
export function mediaPadToken(hash: HashPair): number {
  return PAD_BASE + (hash[0] & PAD_MASK)
}
