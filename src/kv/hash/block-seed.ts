/**
 * The seed under which the blocks of a prompt are hashed: it keeps adapters and tenants apart.
 *
 * Owns: 1337 + xxh3(LoRA name, 0) + xxh3(salt, 1), wrapping. An empty name is no name. The two inner seeds differ so
 * that an adapter and a tenant of the same name do not meet.
 */
import { addPairs } from './hash-pair.ts'
import type { HashPair } from './hash-pair.ts'
import { xxh3Text } from './xxh3.ts'

/** Seed of plain blocks and of the chain of sequence hashes. */
export const PLAIN_SEED: HashPair = [1337, 0]

export interface SeedNames {
  readonly loraName?: string
  /** Cache salt, tenant or cache namespace: prompts under different salts share nothing. */
  readonly salt?: string
}

export function blockSeed(names: SeedNames): HashPair {
  let seed = PLAIN_SEED
  if (names.loraName) seed = addPairs(seed, xxh3Text(names.loraName, [0, 0]))
  if (names.salt) seed = addPairs(seed, xxh3Text(names.salt, [1, 0]))
  return seed
}
