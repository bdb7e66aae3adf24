/** The list of models of a server, `/v1/models`. */
import { isRecord } from '../../base/index.ts'

/** The first entry of a list of models; null for anything else. */
export function firstModel(list: unknown): Readonly<Record<string, unknown>> | null {
  const [first] = modelEntries(list)
  return first ?? null
}

export function modelEntries(list: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (!isRecord(list) || !Array.isArray(list['data'])) return []
  return (list['data'] as unknown[]).filter(isRecord)
}
