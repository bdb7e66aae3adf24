/**
 * A 64-bit hash as two u32 halves, low first; BigInt and text only at the doors.
 */
export type HashPair = readonly [low: number, high: number]

export function hashPairOf(value: bigint): HashPair {
  return [Number(value & 0xffffffffn), Number((value >> 32n) & 0xffffffffn)]
}

export function hashToBigint(low: number, high: number): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
}

/** (low, high) pairs of a list of u64; a negative number counts as its two's complement, as engines send it. */
export function hashesFromBigints(values: readonly bigint[]): Uint32Array {
  const pairs = new Uint32Array(2 * values.length)
  values.forEach((value, i) => pairs.set(hashPairOf(value), 2 * i))
  return pairs
}

export function hashesToBigints(pairs: Uint32Array): bigint[] {
  return Array.from({ length: pairs.length >> 1 }, (_, i) =>
    hashToBigint(pairs[2 * i] ?? 0, pairs[2 * i + 1] ?? 0),
  )
}

/** Wrapping sum of two u64. */
export function addPairs(a: HashPair, b: HashPair): HashPair {
  const low = a[0] + b[0]
  return [low >>> 0, (a[1] + b[1] + (low > 0xffffffff ? 1 : 0)) >>> 0]
}
