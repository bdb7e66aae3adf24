/**
 * The seed of one random draw, computed only from the request's seed and the index of the output token.
 *
 * No state is carried from token to token, so a migrated request draws the same tokens on the other worker.
 */
import { mixedBits } from '../base/index.ts'

/** Returns a u32. `seed` may be any safe integer. */
export function drawSeed(seed: number, outputIndex: number): number {
  const low = seed >>> 0
  const high = Math.floor(seed / 0x1_0000_0000) >>> 0
  return mixedBits(mixedBits(mixedBits(low) ^ high) ^ Math.imul(outputIndex + 1, 0x9e3779b1))
}
