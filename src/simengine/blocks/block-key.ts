/** 53 bits of a block's 64-bit hash as one number: the cheapest key of a `Map`. Events carry all 64. */
export function blockKey(low: number, high: number): number {
  return (high & 0x1fffff) * 4294967296 + low
}
