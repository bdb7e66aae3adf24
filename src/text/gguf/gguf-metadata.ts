/** The metadata of a GGUF file by name. Nothing after the metadata is read. */
import type { GgufValue } from './gguf-cursor.ts'
import { readGguf, readGgufPreamble, skipGgufPreamble } from './gguf-header.ts'
import type { NeedsMore } from './gguf-header.ts'

type GgufRead = { readonly kind: 'metadata'; readonly metadata: GgufMetadata } | NeedsMore
type GgufLength = { readonly kind: 'length'; readonly metadataBytes: number } | NeedsMore

export interface GgufMetadata {
  readonly version: number
  readonly tensorCount: number
  readonly values: ReadonlyMap<string, GgufValue>
  readonly architecture: string
  readonly name: string | null
  readonly contextLength: number | null
  readonly blockCount: number | null
  readonly headCount: number | null
  readonly headCountKv: number | null
  readonly embeddingLength: number | null
  readonly vocabSize: number | null
  readonly chatTemplate: string | null
}

/** `fileBytes`: size of the file; a length that points beyond it means that the file is damaged. */
export function readGgufMetadata(bytes: Uint8Array, fileBytes?: number): GgufRead {
  const read = readGguf(bytes, fileBytes, (cursor) => {
    const { version, tensorCount, values } = readGgufPreamble(cursor)
    return describe(version, tensorCount, values)
  })
  return read.kind === 'more' ? read : { kind: 'metadata', metadata: read.value }
}

/** The offset at which the tensor list begins. */
export function readGgufMetadataBytes(bytes: Uint8Array, fileBytes: number): GgufLength {
  const read = readGguf(bytes, fileBytes, (cursor) => {
    skipGgufPreamble(cursor)
    return cursor.at
  })
  return read.kind === 'more' ? read : { kind: 'length', metadataBytes: read.value }
}

function describe(
  version: number,
  tensorCount: number,
  values: ReadonlyMap<string, GgufValue>,
): GgufMetadata {
  const architecture = ggufText(values, 'general.architecture')
  if (architecture === null) throw new Error('general.architecture is missing')
  const number = (key: string): number | null => ggufNumber(values, `${architecture}.${key}`)
  const tokens = values.get('tokenizer.ggml.tokens')
  return {
    version,
    tensorCount,
    values,
    architecture,
    name: ggufText(values, 'general.name'),
    contextLength: number('context_length'),
    blockCount: number('block_count'),
    headCount: number('attention.head_count'),
    headCountKv: number('attention.head_count_kv') ?? number('attention.head_count'),
    embeddingLength: number('embedding_length'),
    vocabSize: Array.isArray(tokens) ? tokens.length : number('vocab_size'),
    chatTemplate: ggufText(values, 'tokenizer.chat_template'),
  }
}

export function ggufText(values: ReadonlyMap<string, GgufValue>, key: string): string | null {
  const value = values.get(key)
  return typeof value === 'string' ? value : null
}

/** A number; for a list (some models have a value per layer) its maximum. */
export function ggufNumber(values: ReadonlyMap<string, GgufValue>, key: string): number | null {
  const value = values.get(key)
  if (typeof value === 'number') return value
  if (!ArrayBuffer.isView(value) || value.length === 0) return null
  let most = -Infinity
  for (const item of value) most = Math.max(most, item)
  return most
}

export function ggufFlag(values: ReadonlyMap<string, GgufValue>, key: string): boolean | null {
  const value = values.get(key)
  return typeof value === 'boolean' ? value : null
}
