/**
 * A scorer, filter or picker decides at once and must not return a promise, as an `async` function does. The error
 * of one that is rejected is not needed then, and must not end the process as an unhandled one.
 */
export function isPromise(value: unknown): boolean {
  if (!(value instanceof Promise)) return false
  value.catch(() => undefined)
  return true
}
