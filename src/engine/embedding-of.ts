/**
 * Converts the result of `embed` to a Float32Array: an engine may return a plain list or 64-bit numbers. Null: the
 * value is not a vector, is empty, or contains a number that is not finite.
 */
export function embeddingOf(given: unknown): Float32Array | null {
  if (!isVector(given) || given.length === 0) return null
  const vector = given instanceof Float32Array ? given : Float32Array.from(given)
  return vector.every(Number.isFinite) ? vector : null
}

function isVector(given: unknown): given is ArrayLike<number> {
  if (Array.isArray(given)) return given.every((number) => typeof number === 'number')
  return given instanceof Float32Array || given instanceof Float64Array
}
