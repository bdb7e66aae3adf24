/** Number of bits of a word that are set; computed without a branch. */
export function bitCount(word: number): number {
  let sum = word - ((word >>> 1) & 0x55555555)
  sum = (sum & 0x33333333) + ((sum >>> 2) & 0x33333333)
  return Math.imul((sum + (sum >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** The bits [from, to) within the word that contains them. */
export function bitsBetween(from: number, to: number): number {
  return to - from === 32 ? -1 : ((1 << (to - from)) - 1) << (from & 31)
}
