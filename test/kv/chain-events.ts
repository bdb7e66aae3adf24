/** Chains of blocks with made-up hashes, and the KV events that store and remove parts of them. */
import type { KvEvent } from '../../src/kv/index.ts'

export const none = new Uint32Array(0)

/** `count` hashes in no particular order, starting with a number. */
export const hashesOf = (first: number, count: number): Uint32Array =>
  Uint32Array.from({ length: 2 * count }, (_, i) => Math.imul(first + i + 1, 0x9e3779b1) >>> 0)

/** Blocks `from` .. `to` of a chain, after the one before them. */
export const stored = (
  hashes: Uint32Array,
  from: number,
  to: number,
  tier: 'device' | 'host' = 'device',
): KvEvent => ({
  kind: 'stored',
  parent: from === 0 ? null : [hashes[2 * from - 2] as number, hashes[2 * from - 1] as number],
  hashes: hashes.slice(2 * from, 2 * to),
  localHashes: none,
  tier,
})

/** Blocks `from` .. `to` of a chain. */
export const removed = (hashes: Uint32Array, from: number, to: number): KvEvent => ({
  kind: 'removed',
  hashes: hashes.slice(2 * from, 2 * to),
  tier: 'device',
})
