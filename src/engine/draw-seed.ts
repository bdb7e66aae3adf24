/**
 * The seed of one random draw, computed only from the request's seed and the index of the output token.
 *
 * No state is carried from token to token, so a migrated request draws the same tokens on the other worker.
 */

/** Returns a u32. `seed` may be any safe integer. */
export function drawSeed(seed: number, outputIndex: number): number {
  const low = seed >>> 0
  const high = Math.floor(seed / 0x1_0000_0000) >>> 0
  return mix(mix(mix(low) ^ high) ^ Math.imul(outputIndex + 1, 0x9e3779b1))
}

/** A bijection of u32 in which every input bit affects every output bit (the finalizer of MurmurHash3). */
function mix(value: number): number {
  let x = value >>> 0
  x ^= x >>> 16
  x = Math.imul(x, 0x85ebca6b)
  x ^= x >>> 13
  x = Math.imul(x, 0xc2b2ae35)
  x ^= x >>> 16
  return x >>> 0
}
