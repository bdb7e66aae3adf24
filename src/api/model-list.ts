/**
 * `GET /v1/models`: what is served, in OpenAI's form.
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
