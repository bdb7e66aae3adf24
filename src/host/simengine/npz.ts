/**
 * Reads the arrays of a NumPy archive (`.npz`: a zip file with `.npy` files), as profilers write them.
 *
 * Only what such files use is supported: stored or deflated entries, little- or big-endian floats and integers, one
 * or two dimensions. Sizes are checked before anything is allocated; every violation is `config.invalid`.
 */
import { inflateRawSync } from 'node:zlib'
import { BatonError } from '../../base/index.ts'

/** One dimension, or rows. */
type NpyArray = readonly number[] | readonly (readonly number[])[]

const END_BYTES = 22
const END_MARK = 0x06054b50
const CENTRAL_MARK = 0x02014b50
const ENTRY_BYTES_MAX = 64 * 1024 * 1024
const STORED = 0
const DEFLATED = 8

export function readNpz(bytes: Buffer): ReadonlyMap<string, NpyArray> {
  const arrays = new Map<string, NpyArray>()
  for (const { name, content } of zipEntries(bytes))
    arrays.set(name.replace(/\.npy$/, ''), readNpy(name, content))
  return arrays
}

interface ZipEntry {
  readonly name: string
  readonly content: Buffer
}

function* zipEntries(bytes: Buffer): Generator<ZipEntry> {
  const end = bytes.lastIndexOf(Buffer.from([0x50, 0x4b, 0x05, 0x06]))
  if (end < 0 || end + END_BYTES > bytes.length || bytes.readUInt32LE(end) !== END_MARK)
    throw damaged('it is not a zip archive')
  let at = bytes.readUInt32LE(end + 16)
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    if (at + 46 > bytes.length || bytes.readUInt32LE(at) !== CENTRAL_MARK)
      throw damaged('its directory is incomplete')
    const nameBytes = bytes.readUInt16LE(at + 28)
    const name = bytes.toString('utf8', at + 46, at + 46 + nameBytes)
    yield { name, content: contentOf(bytes, at, name) }
    at += 46 + nameBytes + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32)
  }
}

/** `at`: the entry in the central directory, because the local header may lack the sizes. */
function contentOf(bytes: Buffer, at: number, name: string): Buffer {
  const method = bytes.readUInt16LE(at + 10)
  const packedBytes = bytes.readUInt32LE(at + 20)
  const plainBytes = bytes.readUInt32LE(at + 24)
  const header = bytes.readUInt32LE(at + 42)
  if (plainBytes > ENTRY_BYTES_MAX) throw damaged(`${name} is larger than ${ENTRY_BYTES_MAX} bytes`)
  if (header + 30 > bytes.length) throw damaged(`${name} is incomplete`)
  const from = header + 30 + bytes.readUInt16LE(header + 26) + bytes.readUInt16LE(header + 28)
  const packed = bytes.subarray(from, from + packedBytes)
  if (packed.length !== packedBytes) throw damaged(`${name} is incomplete`)
  const content = unpacked(method, packed, plainBytes, name)
  if (content.length !== plainBytes)
    throw damaged(`the size of ${name} differs from the stated one`)
  return content
}

function unpacked(method: number, packed: Buffer, plainBytes: number, name: string): Buffer {
  if (method === STORED) return packed
  if (method !== DEFLATED)
    throw damaged(`${name} uses an unsupported compression method (${method})`)
  try {
    return inflateRawSync(packed, { maxOutputLength: Math.max(1, plainBytes) })
  } catch (cause) {
    throw damaged(`${name} cannot be decompressed`, cause)
  }
}

const READERS: Readonly<Record<string, (view: DataView, at: number, little: boolean) => number>> = {
  f4: (view, at, little) => view.getFloat32(at, little),
  f8: (view, at, little) => view.getFloat64(at, little),
  i2: (view, at, little) => view.getInt16(at, little),
  i4: (view, at, little) => view.getInt32(at, little),
  i8: (view, at, little) => Number(view.getBigInt64(at, little)),
  u2: (view, at, little) => view.getUint16(at, little),
  u4: (view, at, little) => view.getUint32(at, little),
  u8: (view, at, little) => Number(view.getBigUint64(at, little)),
}

function readNpy(name: string, bytes: Buffer): NpyArray {
  if (bytes.length < 12 || bytes.toString('latin1', 0, 6) !== '\x93NUMPY')
    throw damaged(`${name} is not an array`)
  const [lengthBytes, headerAt] = bytes[6] === 1 ? [2, 10] : [4, 12]
  const dataAt = headerAt + bytes.readUIntLE(8, lengthBytes)
  const header = bytes.toString('latin1', headerAt, dataAt)
  const descr = /'descr':\s*'([<>|])([a-z]\d+)'/.exec(header)
  const shape = /'shape':\s*\(([\d,\s]*)\)/.exec(header)?.[1]
  const read = READERS[descr?.[2] ?? '']
  if (descr === null || read === undefined || shape === undefined)
    throw damaged(`${name} is not an array of plain numbers`)
  const sizes = shape.split(',').flatMap((size) => (size.trim() === '' ? [] : [Number(size)]))
  if (sizes.length === 0 || sizes.length > 2 || sizes.includes(0))
    throw damaged(`${name} is invalid: expected one or two dimensions`)
  const [rows = 0, columns] = sizes
  const itemBytes = Number(descr[2]?.slice(1))
  const count = rows * (columns ?? 1)
  if (dataAt + count * itemBytes !== bytes.length)
    throw damaged(`the number of values in ${name} differs from its shape`)
  const view = new DataView(bytes.buffer, bytes.byteOffset + dataAt)
  const numberAt = (index: number): number => read(view, index * itemBytes, descr[1] !== '>')
  if (columns === undefined) return Array.from({ length: rows }, (_, i) => numberAt(i))
  const isByColumns = /'fortran_order':\s*True/.test(header)
  return Array.from({ length: rows }, (_row, i) =>
    Array.from({ length: columns }, (_column, j) =>
      numberAt(isByColumns ? j * rows + i : i * columns + j),
    ),
  )
}

function damaged(why: string, cause?: unknown): BatonError {
  return new BatonError('config.invalid', `the .npz file cannot be read: ${why}`, { cause })
}
