/** Mixes a hash, because an engine's hash may be badly distributed. Signed or unsigned halves. */
export const mixHash = (low: number, high: number): number =>
  Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)
