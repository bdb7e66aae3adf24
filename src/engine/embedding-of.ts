/**
 * The vector that `embed` has returned, in the one form that it has from there on: an engine that has its numbers in a plain
 * list or in 64 bits gives them as they are. Null: it is none, or empty, or not finite.
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
