/**
 * `GET /v1/models`: what is served, in OpenAI's form or in Anthropic's.
 */
import { asciiJson } from './json-escape.ts'

interface ModelEntry {
  readonly name: string
  readonly createdSeconds: number
  readonly contextLength?: number
}

export function modelObject(entry: ModelEntry): Record<string, unknown> {
  return {
    id: entry.name,
    object: 'model',
    created: entry.createdSeconds,
    owned_by: 'baton',
    ...(entry.contextLength === undefined
      ? {}
      : { context_window: entry.contextLength, max_model_len: entry.contextLength }),
  }
}

export function modelListJson(entries: readonly ModelEntry[]): string {
  return asciiJson({ object: 'list', data: entries.map(modelObject) })
}

export function anthropicModelObject(entry: ModelEntry): Record<string, unknown> {
  return {
    type: 'model',
    id: entry.name,
    display_name: entry.name,
    created_at: new Date(entry.createdSeconds * 1000).toISOString(),
  }
}

/** All of it is one page. */
export function anthropicModelListJson(entries: readonly ModelEntry[]): string {
  return asciiJson({
    data: entries.map(anthropicModelObject),
    first_id: entries[0]?.name ?? null,
    last_id: entries.at(-1)?.name ?? null,
    has_more: false,
  })
}
