/**
 * Identity of pictures and other media in a prompt: identifier → 64-bit hash, so that a router that does not see the
 * pixels can tell prompts with different pictures apart.
 */
import type { HashPair } from './hash-pair.ts'
import { xxh3Text } from './xxh3.ts'

/**
 * Null for an empty identifier; for a hexadecimal digest of 64 digits its first 16 digits, otherwise a hash of the
 * text.
 */
export function hashMediaId(identifier: string): HashPair | null {
  if (identifier === '') return null
  if (/^[0-9a-fA-F]{64}$/.test(identifier)) {
    return [parseInt(identifier.slice(8, 16), 16), parseInt(identifier.slice(0, 8), 16)]
  }
  return xxh3Text(identifier)
}
