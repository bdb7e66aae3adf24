/**
 * What an engine may yield, and the one form that it has from there on.
 *
 * An engine that has its ids in a typed array, or answers text instead of ids, says so as it is; whoever reads the
 * stream (`StreamValidator`) makes a `Chunk` of it. A chunk that is one already is not copied: that is the token's way.
 */
import type { Chunk } from '../request/index.ts'

/** Integer typed arrays that may stand for a list of token ids. */
type TokenArray = Uint32Array | Int32Array | Uint16Array | Uint8Array

export type EngineChunk = Omit<Chunk, 'tokenIds'> & {
  /** New tokens only. Absent: none, as beside `text`. */
  readonly tokenIds?: readonly number[] | TokenArray
}

/** What a chunk may carry without ids. */
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

/** Null: not a chunk at all. Values inside are not looked at. */
export function chunkOf(item: EngineChunk): Chunk | null {
  if (typeof item !== 'object' || item === null) return null
  const { tokenIds } = item
  if (Array.isArray(tokenIds)) return item as Chunk
  if (tokenIds === undefined) {
    // A key that is misspelt (`token_ids`) would lose tokens without a word.
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
