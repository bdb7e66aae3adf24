/** Shows an unexpected value in an error message; an object may have no text, or one that throws. */
export function shown(value: unknown): string {
  if (typeof value === 'object' || typeof value === 'function') return typeof value
  return String(value as string | number | bigint | boolean | symbol | null | undefined)
}
