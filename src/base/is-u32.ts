/** An unsigned 32-bit integer: a token id, a count, half of a hash. Called for each token. */
export function isU32(value: unknown): value is number {
  return typeof value === 'number' && value >>> 0 === value
}
