/**
 * The seed for the hashes of a prompt's blocks: it separates the cache contents of LoRA adapters and tenants.
 *
 * Seed = 1337 + xxh3(LoRA name, seed 0) + xxh3(salt, seed 1), wrapping; an empty name adds nothing. The two inner
 * seeds differ, so that an adapter and a tenant with the same name get different seeds.
 */
import { addPairs } from './hash-pair.ts'
import type { HashPair } from './hash-pair.ts'
import { xxh3Text } from './xxh3.ts'

/** Seed of blocks without adapter and salt, and of the chain of sequence hashes. */
export const PLAIN_SEED: HashPair = [1337, 0]

export interface SeedNames {
  readonly loraName?: string
  /** Cache salt, tenant or cache namespace: prompts with different salts share no blocks. */
  readonly salt?: string
}

export function blockSeed(names: SeedNames): HashPair {
  let seed = PLAIN_SEED
  if (names.loraName) seed = addPairs(seed, xxh3Text(names.loraName, [0, 0]))
  if (names.salt) seed = addPairs(seed, xxh3Text(names.salt, [1, 0]))
  return seed
}
