/** The strings in a JSON value, including field names. */

/** Collects them in order. */
export function collectTexts(value: unknown, into: string[]): void {
  if (typeof value === 'string') into.push(value)
  else if (Array.isArray(value)) for (const item of value as unknown[]) collectTexts(item, into)
  else if (typeof value === 'object' && value !== null) {
    // Not by entries: a pair per member takes three times as long.
    for (const key of Object.keys(value)) {
      into.push(key)
      collectTexts((value as Readonly<Record<string, unknown>>)[key], into)
    }
  }
}

/** Replaces them; `map` is called in the order of `collectTexts`. */
export function mapTexts(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value)
  if (Array.isArray(value)) return value.map((item: unknown) => mapTexts(item, map))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [map(key), mapTexts(item, map)]),
  )
}
