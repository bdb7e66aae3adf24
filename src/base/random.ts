/** Randomness as an argument: a seeded source makes a run reproducible. */
export interface Random {
  /** Uniform in [0, 1) with 32 bits of resolution. */
  next(): number
}

/** sfc32 (Chris Doty-Humphrey's Small Fast Counter generator), seeded from one 32-bit number. */
export function seededRandom(seed: number): Random {
  let a = 0x9e3779b9
  let b = 0x243f6a88
  let c = seed >>> 0
  let counter = 1
  const next32 = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + sum) | 0
    return sum >>> 0
  }
  for (let i = 0; i < 12; i++) next32()
  return { next: () => next32() / 4294967296 }
}

/** Uniform integer in [0, bound). */
export function randomInt(random: Random, bound: number): number {
  return Math.floor(random.next() * bound)
}
