/**
 * The values that an engine may yield, and their conversion to `Chunk`.
 *
 * An engine may yield ids in a typed array, or text instead of ids; `StreamValidator` converts these. A value that is
 * already a `Chunk` is not copied, because that is the per-token path.
 */
import type { Chunk } from '../request/index.ts'

/** Integer typed arrays that are accepted as a list of token ids. */
type TokenArray = Uint32Array | Int32Array | Uint16Array | Uint8Array

export type EngineChunk = Omit<Chunk, 'tokenIds'> & {
  /** New tokens only. Absent: none, for example with `text`. */
  readonly tokenIds?: readonly number[] | TokenArray
}

/** The fields that a chunk may have without ids. */
const BESIDE = [
  'text',
  'finish',
  'usage',
  'logprobs',
  'promptLogprobs',
  'prefillResult',
  'engineData',
  'embedding',
] as const satisfies readonly (keyof Chunk)[]

/** Null: the value is not a chunk. The values of its fields are not checked. */
export function chunkOf(item: EngineChunk): Chunk | null {
  if (typeof item !== 'object' || item === null) return null
  const { tokenIds } = item
  if (Array.isArray(tokenIds)) return item as Chunk
  if (tokenIds === undefined) {
    // At least one known field, because a misspelt key (`token_ids`) would silently lose tokens.
    return BESIDE.some((key) => item[key] !== undefined) ? { ...item, tokenIds: [] } : null
  }
  return isTokenArray(tokenIds) ? { ...item, tokenIds: Array.from(tokenIds) } : null
}

function isTokenArray(value: unknown): value is TokenArray {
  return (
    value instanceof Uint32Array ||
    value instanceof Int32Array ||
    value instanceof Uint16Array ||
    value instanceof Uint8Array
  )
}
