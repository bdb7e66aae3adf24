/** Hash tables whose length is a power of two and whose index is the upper bits of a mixed hash. */

/** Mixes a hash, because an engine's hash may be badly distributed. Signed or unsigned halves. */
export const mixHash = (low: number, high: number): number =>
  Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)

/** The smallest power of two from `least` on that is not below a number; `least` is one. */
export function tableLength(least: number, number: number): number {
  let length = least
  while (length < number) length *= 2
  return length
}

/** By how many bits a mixed hash is shifted (`>>>`) for an index below a table's length. */
export const tableShift = (length: number): number => Math.clz32(length) + 1
