/**
 * Spreads a 32-bit number over all 32 bits: the finalizer of MurmurHash3. A bijection of u32 in which every bit of the
 * input affects every bit of the result.
 */
export function mixedBits(word: number): number {
  const once = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35)
  return (twice ^ (twice >>> 16)) >>> 0
}
