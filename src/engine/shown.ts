/** Shows an unexpected value in an error message; an object may have no text, or one that throws. */
export function shown(value: unknown): string {
  if (typeof value === 'object' || typeof value === 'function') return typeof value
  return String(value as string | number | bigint | boolean | symbol | null | undefined)
}

const TEXT_CHARACTERS_MAX = 100

/** As `shown`, with a text in quotes: otherwise an empty one is not seen, and one of digits looks like a number. */
export function quoted(value: unknown): string {
  if (typeof value !== 'string') return shown(value)
  if (value.length <= TEXT_CHARACTERS_MAX) return JSON.stringify(value)
  return `${JSON.stringify(value.slice(0, TEXT_CHARACTERS_MAX))}… (${value.length} characters)`
}
