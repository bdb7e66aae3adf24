/** Normalises names of parsers: `DeepSeek-R1`, `deepseekv4` and `gemma-4` are accepted spellings. */

const KEYS_MAX = 64
const knownKeys = new WeakMap<Readonly<Record<string, string>>, Map<string, string>>()

/**
 * The canonical name; `aliases` contains the names used by vLLM and SGLang. Cached, because every request looks up the
 * names of its model.
 */
export function parserKey(name: string, aliases: Readonly<Record<string, string>>): string {
  let known = knownKeys.get(aliases)
  if (known === undefined) {
    known = new Map()
    knownKeys.set(aliases, known)
  }
  let key = known.get(name)
  if (key !== undefined) return key
  key = keyOf(name, aliases)
  if (known.size >= KEYS_MAX) known.clear()
  known.set(name, key)
  return key
}

function keyOf(name: string, aliases: Readonly<Record<string, string>>): string {
  const suffix = suffixOf(name)
  const key = name
    .slice(0, name.length - suffix.length)
    .toLowerCase()
    .replaceAll('-', '_')
  return Object.hasOwn(aliases, key) ? (aliases[key] ?? key) : key
}

/** The suffix that a checkpoint appends to its tag names, including the colon; usually empty. */
export function suffixOf(name: string): string {
  return /:[\w-]+$/.exec(name)?.[0] ?? ''
}

/**
 * The suffix of a tag in a chat template, which may also come from a variable (`'<think{}>'.format(…)`). Null: no
 * such tag.
 */
export function hunyuanSuffixOf(template: string, tag: string): string | null {
  const written = new RegExp(`<${tag}(:[\\w-]+|\\{\\})?>`).exec(template)
  if (written === null) return null
  const [, suffix = ''] = written
  return suffix === '{}' ? (/=\s*'(:[\w-]+)'/.exec(template)?.[1] ?? '') : suffix
}
