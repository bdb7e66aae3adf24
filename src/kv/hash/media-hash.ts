/**
 * Identity of pictures and other media inside a prompt.
 *
 * Owns: identifier → 64-bit hash, so that a router that sees no pixels still tells two prompts with different pictures apart.
 */
import type { HashPair } from './hash-pair.ts'
import { xxh3Text } from './xxh3.ts'

/** Null for the empty identifier; of a 64-digit hexadecimal digest its first 16 digits, else a hash of the text. */
export function hashMediaId(identifier: string): HashPair | null {
  if (identifier === '') return null
  if (/^[0-9a-fA-F]{64}$/.test(identifier)) {
    return [parseInt(identifier.slice(8, 16), 16), parseInt(identifier.slice(0, 8), 16)]
  }
  return xxh3Text(identifier)
}
