/** The id of a worker: an unsigned 64-bit number as canonical decimal text, because a double would lose digits. */
export type WorkerId = string & { readonly __brand: 'WorkerId' }

const MAX_U64 = 18446744073709551615n

/** The canonical id for decimal text, or null if it is not an unsigned 64-bit number. */
export function parseWorkerId(text: string): WorkerId | null {
  if (!/^[0-9]{1,20}$/.test(text)) return null
  const value = BigInt(text)
  return value > MAX_U64 ? null : (value.toString() as WorkerId)
}

/** An id from a number that is a safe integer; throws a RangeError otherwise. */
export function workerIdOf(value: number | bigint): WorkerId {
  const id = parseWorkerId(String(value))
  if (id === null)
    throw new RangeError(`worker id must be an unsigned 64-bit integer, got ${value}`)
  return id
}
