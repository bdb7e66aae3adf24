/**
 * Parses the header of a GGUF file (versions 2 and 3, little-endian) from the first bytes of the file: metadata and
 * tensor list. The caller reads the bytes; if they do not suffice, the result says how many are needed. No length in
 * the file is trusted: it is compared with the file size before anything is allocated.
 */
import { BatonError, messageOf } from '../../base/index.ts'
import { GgufCursor, NeedsMoreBytes } from './gguf-cursor.ts'
import type { GgufValue } from './gguf-cursor.ts'

export interface NeedsMore {
  readonly kind: 'more'
  /** Read at least this many bytes from the beginning of the file and call again. */
  readonly bytesNeeded: number
}

interface GgufTensor {
  readonly name: string
  readonly dimensions: readonly number[]
  readonly type: number
  /** Relative to the start of the tensor data. */
  readonly offset: number
}

export interface GgufHeader {
  readonly values: ReadonlyMap<string, GgufValue>
  readonly tensors: readonly GgufTensor[]
  readonly headerBytes: number
}

interface GgufPreamble {
  readonly version: number
  readonly tensorCount: number
  readonly values: ReadonlyMap<string, GgufValue>
}

/** The header with a vocabulary of 300,000 tokens has about 20 MB. */
const HEADER_BYTES_MAX = 512 * 2 ** 20
const MAGIC = 0x46554747
const DIMENSIONS_MAX = 8

/** Parses the whole header; `fileBytes` is the size of the file. */
export function readGgufHeader(
  bytes: Uint8Array,
  fileBytes: number,
): { readonly kind: 'header'; readonly header: GgufHeader } | NeedsMore {
  const read = readGguf(bytes, fileBytes, (cursor) => {
    const { tensorCount, values } = readGgufPreamble(cursor)
    const tensors: GgufTensor[] = []
    for (let i = 0; i < tensorCount; i++) tensors.push(readTensor(cursor))
    return { values, tensors, headerBytes: cursor.at }
  })
  return read.kind === 'more' ? read : { kind: 'header', header: read.value }
}

/** Runs `read` on the bytes. Errors become `model.load_failed`, unless more bytes would help. */
export function readGguf<T>(
  bytes: Uint8Array,
  fileBytes: number | undefined,
  read: (cursor: GgufCursor) => T,
): { readonly kind: 'read'; readonly value: T } | NeedsMore {
  const bytesMax = Math.min(fileBytes ?? HEADER_BYTES_MAX, HEADER_BYTES_MAX)
  try {
    return { kind: 'read', value: read(new GgufCursor(bytes, bytesMax)) }
  } catch (thrown) {
    if (thrown instanceof NeedsMoreBytes) return { kind: 'more', bytesNeeded: thrown.bytesNeeded }
    throw new BatonError(
      'model.load_failed',
      `not a usable GGUF file: ${messageOf(thrown)}; download it again or convert the model anew`,
      { cause: thrown },
    )
  }
}

/** Magic, version, counts and metadata. */
export function readGgufPreamble(cursor: GgufCursor): GgufPreamble {
  const { version, tensorCount, valueCount } = readStart(cursor)
  const values = new Map<string, GgufValue>()
  for (let i = 0; i < valueCount; i++) {
    const key = cursor.string()
    if (values.has(key)) throw new Error(`duplicate key ${key}`)
    values.set(key, cursor.value(cursor.u32()))
  }
  return { version, tensorCount, values }
}

/** Skips the metadata without decoding it: a vocabulary has more than 100,000 strings. */
export function skipGgufPreamble(cursor: GgufCursor): void {
  const { valueCount } = readStart(cursor)
  for (let i = 0; i < valueCount; i++) {
    cursor.string()
    cursor.skip(cursor.u32())
  }
}

function readStart(cursor: GgufCursor): Omit<GgufPreamble, 'values'> & { valueCount: number } {
  if (cursor.u32() !== MAGIC) throw new Error('it does not begin with "GGUF"')
  const version = cursor.u32()
  if (version !== 2 && version !== 3) throw new Error(describeVersion(version))
  const tensorCount = cursor.length()
  return { version, tensorCount, valueCount: cursor.length() }
}

function readTensor(cursor: GgufCursor): GgufTensor {
  const name = cursor.string()
  const dimensionCount = cursor.u32()
  if (dimensionCount > DIMENSIONS_MAX) throw new Error(`a tensor with ${dimensionCount} dimensions`)
  const dimensions = Array.from({ length: dimensionCount }, () => cursor.u64())
  return { name, dimensions, type: cursor.u32(), offset: cursor.u64() }
}

function describeVersion(version: number): string {
  if (version === 0x02000000 || version === 0x03000000) return 'it is big-endian'
  return `its version is ${version}, and only 2 and 3 are supported`
}
