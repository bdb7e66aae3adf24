/**
 * Cryptographic randomness, buffered so that a number costs no system call.
 */
import { randomFillSync } from 'node:crypto'
import type { Random } from '../base/index.ts'

const pool = new Uint32Array(1024)
let next = pool.length

export const osRandom: Random = {
  next: () => {
    if (next === pool.length) {
      randomFillSync(pool)
      next = 0
    }
    return (pool[next++] ?? 0) / 4294967296
  },
}
