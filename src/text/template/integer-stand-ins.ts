/**
 * Replaces large integers (bigint) in a conversation by placeholder texts for the template interpreter, which does
 * not support them, and finds the placeholders in its output, bare or as JSON strings.
 */
interface StandIns {
  readonly values: Record<string, unknown>
  /** Its first group is the digits. */
  readonly pattern: RegExp
}

/** Null: there are none. */
export function standInsOf(values: Readonly<Record<string, unknown>>): StandIns | null {
  const texts: string[] = []
  if (!collect(values, texts)) return null
  // A mark that occurs in no text of the request, so that a user cannot forge a placeholder.
  let mark = 'largeinteger'
  while (texts.some((text) => text.toLowerCase().includes(mark))) mark += 'x'
  const replaced = replace(values, (digits) => `${mark}(${digits})`) as Record<string, unknown>
  return { values: replaced, pattern: new RegExp(`"?${mark}\\((-?[0-9]+)\\)"?`, 'gi') }
}

/** Whether there is a bigint; all texts and field names are collected in `texts`. */
function collect(value: unknown, texts: string[]): boolean {
  if (typeof value === 'bigint') return true
  if (typeof value === 'string') {
    texts.push(value)
    return false
  }
  if (typeof value !== 'object' || value === null) return false
  let found = false
  for (const [key, item] of Object.entries(value)) {
    texts.push(key)
    if (collect(item, texts)) found = true
  }
  return found
}

function replace(value: unknown, standIn: (digits: string) => string): unknown {
  if (typeof value === 'bigint') return standIn(String(value))
  if (Array.isArray(value)) return value.map((item: unknown) => replace(item, standIn))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  return Object.fromEntries(entries.map(([key, item]) => [key, replace(item, standIn)]))
}
