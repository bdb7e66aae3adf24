/**
 * Converts the result of `embed` to a Float32Array: an engine may return a plain list or 64-bit numbers. Null: the
 * value is not a vector, is empty, has more than a million numbers, or contains a number that is not finite.
 *
 * The vector is a copy, of which each number was read once: an engine may use its memory for the next request.
 */
import { typedArrayClass, typedArrayLength } from './typed-array.ts'

/** Far above any model's, and a quarter of what a frame can carry. */
export const EMBEDDING_NUMBERS_MAX = 2 ** 20

export function embeddingOf(given: unknown): Float32Array | null {
  const length = lengthOf(given)
  if (!(length > 0 && length <= EMBEDDING_NUMBERS_MAX)) return null
  const vector = new Float32Array(length)
  for (let i = 0; i < length; i++) {
    const number: unknown = (given as ArrayLike<unknown>)[i]
    if (typeof number !== 'number') return null
    vector[i] = number
  }
  return vector.every(Number.isFinite) ? vector : null
}

/** 0 if it is not a vector. */
function lengthOf(given: unknown): number {
  if (Array.isArray(given)) return given.length
  const name = typedArrayClass(given)
  return name === 'Float32Array' || name === 'Float64Array' ? typedArrayLength(given) : 0
}
