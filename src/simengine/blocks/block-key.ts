/** 53 bits of a block's 64-bit hash as a number, the cheapest key of a `Map`. Events carry all 64 bits. */
export function blockKey(low: number, high: number): number {
  return (high & 0x1fffff) * 4294967296 + low
}
