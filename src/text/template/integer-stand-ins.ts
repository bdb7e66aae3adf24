/**
 * Large integers of a conversation as texts, for the interpreter of templates, which knows no bigint; and how they are
 * found again in what it has written, bare or as a JSON string.
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
  // A mark that no text has, so that nobody writes a stand-in himself.
  let mark = 'largeinteger'
  while (texts.some((text) => text.toLowerCase().includes(mark))) mark += 'x'
  const replaced = replace(values, (digits) => `${mark}(${digits})`) as Record<string, unknown>
  return { values: replaced, pattern: new RegExp(`"?${mark}\\((-?[0-9]+)\\)"?`, 'gi') }
}

/** Whether there is a bigint; all texts and names of fields go into `texts`. */
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
