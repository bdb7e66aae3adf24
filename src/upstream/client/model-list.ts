/** The list of models of a server, `/v1/models`. */
import { isRecord } from '../../base/index.ts'

type ModelEntry = Readonly<Record<string, unknown>>

/** The first entry of a list of models; null for anything else. */
export function firstModel(list: unknown): ModelEntry | null {
  const [first] = modelEntries(list)
  return first ?? null
}

export function modelEntries(list: unknown): readonly ModelEntry[] {
  if (!isRecord(list) || !Array.isArray(list['data'])) return []
  return (list['data'] as unknown[]).filter(isRecord)
}

/**
 * vLLM lists LoRA adapters with the model that they belong to. Where every entry has a parent, or an empty one, it means
 * something else.
 */
export function modelsAndAdapters(entries: readonly ModelEntry[]): {
  readonly models: readonly ModelEntry[]
  readonly adapters: readonly ModelEntry[]
} {
  const hasParent = ({ parent }: ModelEntry): boolean => typeof parent === 'string' && parent !== ''
  const models = entries.filter((entry) => !hasParent(entry))
  if (models.length === 0) return { models: entries, adapters: [] }
  return { models, adapters: entries.filter(hasParent) }
}

export function adapterNames(entries: readonly ModelEntry[]): readonly string[] {
  const ids = modelsAndAdapters(entries).adapters.map(({ id }) => id)
  return ids.filter((id) => typeof id === 'string')
}
