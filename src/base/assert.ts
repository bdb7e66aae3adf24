/** A broken invariant is a bug in Baton. It ends the process with a stack trace and is never sent to a client. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`broken invariant: ${message}`)
}

/** For the `default` of a `switch` over a union type: a member without a case is a compile error. */
export function unreachable(value: never): never {
  throw new Error(`broken invariant: unexpected ${JSON.stringify(value)}`)
}
