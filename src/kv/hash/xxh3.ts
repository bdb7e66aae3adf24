/**
 * Seeded XXH3-64 of bytes or text, for single short inputs: names, identifiers, keys.
 *
 * Prompts are hashed by `block-hash.ts`. An input is at most `INPUT_BYTES_MAX` long (256 KiB).
 */
import { BatonError } from '../../base/index.ts'
import type { HashPair } from './hash-pair.ts'
import { hashInput, INPUT_BYTES_MAX, inputBytes, result } from './xxh3-kernel.ts'

const NO_SEED: HashPair = [0, 0]
const encoder = new TextEncoder()

export function xxh3(bytes: Uint8Array, seed: HashPair = NO_SEED): HashPair {
  if (bytes.length > INPUT_BYTES_MAX) {
    throw new BatonError('request.invalid_argument', 'the value is too long to be hashed', {
      data: { bytes: bytes.length, limit: INPUT_BYTES_MAX },
    })
  }
  inputBytes.set(bytes)
  hashInput(bytes.length, seed[0], seed[1])
  return [result[0] ?? 0, result[1] ?? 0]
}

export function xxh3Text(text: string, seed: HashPair = NO_SEED): HashPair {
  return xxh3(encoder.encode(text), seed)
}
