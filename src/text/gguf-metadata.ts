/**
 * The metadata of a GGUF file (versions 2 and 3, little-endian) from the first bytes of the file. The host reads the
 * bytes; when they do not suffice this says how many are needed. No length is trusted: it is compared with what can
 * be there before anything is allocated.
 */
import { BatonError } from '../base/index.ts'
import { GgufCursor, NeedsMoreBytes } from './gguf-cursor.ts'
import type { GgufValue } from './gguf-cursor.ts'

export type GgufRead =
  | { readonly kind: 'metadata'; readonly metadata: GgufMetadata }
  /** Read at least so many bytes from the beginning of the file and ask again. */
  | { readonly kind: 'more'; readonly bytesNeeded: number }

/** A header with a vocabulary of 300,000 tokens has about 20 MB. */
const HEADER_BYTES_MAX = 512 * 2 ** 20
const MAGIC = 0x46554747

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

/** `fileBytes`: the size of the file; a length that points past it is damage, not a reason to read on. */
export function readGgufMetadata(bytes: Uint8Array, fileBytes = HEADER_BYTES_MAX): GgufRead {
  const cursor = new GgufCursor(bytes, Math.min(fileBytes, HEADER_BYTES_MAX))
  try {
    if (cursor.u32() !== MAGIC) throw new Error('it does not begin with "GGUF"')
    const version = cursor.u32()
    if (version !== 2 && version !== 3) throw new Error(describeVersion(version))
    const tensorCount = cursor.length()
    const valueCount = cursor.length()
    const values = new Map<string, GgufValue>()
    for (let i = 0; i < valueCount; i++) {
      const key = cursor.string()
      if (values.has(key)) throw new Error(`the key ${key} is there twice`)
      values.set(key, cursor.value(cursor.u32()))
    }
    return { kind: 'metadata', metadata: describe(version, tensorCount, values) }
  } catch (thrown) {
    if (thrown instanceof NeedsMoreBytes) return { kind: 'more', bytesNeeded: thrown.bytesNeeded }
    throw new BatonError(
      'model.load_failed',
      `not a usable GGUF file: ${thrown instanceof Error ? thrown.message : String(thrown)}; download it again or convert the model anew`,
      { cause: thrown },
    )
  }
}

function describeVersion(version: number): string {
  if (version === 0x02000000 || version === 0x03000000) return 'it is big-endian'
  return `its version is ${version}, and only 2 and 3 are known`
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

/** A number; of a list (some models say it per layer) the largest. */
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
