/**
 * Numbers of a model file that llama.cpp does not check: some crash it by an assertion at the start or at the first
 * step, with others it starts but cannot answer anything.
 */

interface Limits {
  readonly key: string
  readonly least: number
  readonly most: number
  readonly isWhole: boolean
}

const LIMITS: readonly Limits[] = [
  // `LLAMA_MAX_LAYERS`
  { key: 'block_count', least: 1, most: 512, isWhole: true },
  { key: 'context_length', least: 2, most: 2 ** 31 - 1, isWhole: true },
  { key: 'attention.layer_norm_rms_epsilon', least: 0, most: 1, isWhole: false },
  { key: 'attention.layer_norm_epsilon', least: 0, most: 1, isWhole: false },
]

/** What is wrong with the numbers, or null. Numbers that the file does not contain are left to llama.cpp. */
export function numbersFault(
  architecture: string,
  values: ReadonlyMap<string, unknown>,
): string | null {
  for (const { key, least, most, isWhole } of LIMITS) {
    const name = `${architecture}.${key}`
    const value = values.get(name)
    if (value === undefined) continue
    const number = typeof value === 'bigint' ? Number(value) : value
    const isWithin = typeof number === 'number' && number >= least && number <= most
    if (isWithin && (!isWhole || Number.isInteger(number))) continue
    const expected = `${isWhole ? 'a whole number' : 'a number'} from ${least} to ${most}`
    return `has ${name} = ${shown(value)}, expected ${expected}`
  }
  return null
}

function shown(value: unknown): string {
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : typeof value
}
