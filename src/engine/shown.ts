/** What an engine gave instead of what was wanted, in a message: an object may have no text, or one that throws. */
export function shown(value: unknown): string {
  if (typeof value === 'object' || typeof value === 'function') return typeof value
  return String(value as string | number | bigint | boolean | symbol | null | undefined)
}
