/**
 * The embedding of a simulated engine: the normalised sum of one pseudo-random direction per token.
 *
 * The same tokens give the same vector on every worker, and prompts with common tokens are similar, so that a vector
 * search can be tried without a model.
 */
import { seededRandom } from '../../base/index.ts'

export function simEmbedding(tokenIds: Uint32Array, seed: number, length: number): Float32Array {
  const sum = new Float64Array(length)
  for (const id of tokenIds) {
    const random = seededRandom(Math.imul(id + 1, 0x9e3779b1) ^ seed)
    for (let i = 0; i < length; i++) sum[i] = (sum[i] as number) + random.next() - 0.5
  }
  let squares = 0
  for (const value of sum) squares += value * value
  const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares)
  return Float32Array.from(sum, (value) => value * scale)
}
