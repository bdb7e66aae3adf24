/**
 * A broken invariant is our own fault and ends the process loudly; it is never an answer to a client.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`broken invariant: ${message}`)
}

/** The end of a `switch` over a union: an unhandled new member does not compile. */
export function unreachable(value: never): never {
  throw new Error(`broken invariant: unexpected ${JSON.stringify(value)}`)
}
