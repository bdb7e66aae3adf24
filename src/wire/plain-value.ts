/**
 * Encodes plain values (records, lists, texts, numbers, typed arrays) as msgpack, safe against a hostile peer.
 *
 * `checkMsgpack` validates received bytes before the library decodes them: nesting depth, every length against the
 * bytes that are present, and only the types that Baton sends. So a forged length cannot cause an allocation, and of
 * the library's extensions only typed arrays are reachable. Encoded values are validated, too: a value that cannot be
 * sent must fail here and not at the peer, where it would cost the whole connection.
 */
import { Packr } from 'msgpackr'

import { BatonError } from '../base/index.ts'
import { readU32 } from './u32.ts'
import { protocolError } from './protocol-error.ts'

const DEPTH_MAX = 64
/** The msgpack extension type that msgpackr uses for typed arrays. */
const EXT_TYPED_ARRAY = 0x74
/** Of the library's classes of typed arrays, by the byte that follows the type: Int8Array to BigUint64Array. */
const ELEMENT_BYTES = [1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8]

const OPTIONS = {
  useRecords: false,
  moreTypes: true,
  mapsAsObjects: true,
  variableMapSize: true,
  copyBuffers: true,
  int64AsType: 'number' as const,
  skipValues: [undefined],
}
const packr = new Packr(OPTIONS)
/** The library renames a key `__proto__`, except when decoding to maps. */
const mapPackr = new Packr({ ...OPTIONS, mapsAsObjects: false })

/** The bytes of a plain value. Throws `request.invalid_argument` for values that cannot be sent. */
export function encodePlain(value: unknown, what: string): Uint8Array {
  try {
    const bytes: Uint8Array = packr.pack(value)
    checkMsgpack(bytes, 0, bytes.length)
    return bytes
  } catch (error) {
    throw new BatonError(
      'request.invalid_argument',
      `${what} contains a value that cannot be sent to another process`,
      {
        cause: error,
      },
    )
  }
}

/** Throws `transport.protocol`. The result contains no views of `bytes`. */
export function decodePlain(bytes: Uint8Array, start: number, end: number, what: string): unknown {
  const namesPrototype = checkMsgpack(bytes, start, end)
  try {
    const packed = bytes.subarray(start, end)
    const value: unknown = namesPrototype ? fromMaps(mapPackr.unpack(packed)) : packr.unpack(packed)
    return value
  } catch (error) {
    throw protocolError('message.malformed', `${what} cannot be decoded`, {}, error)
  }
}

/** Like `decodePlain`, for messages that must be a record. */
export function decodeRecord(
  bytes: Uint8Array,
  start: number,
  end: number,
  what: string,
): Record<string, unknown> {
  const value = decodePlain(bytes, start, end, what)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    if (!ArrayBuffer.isView(value)) return value as Record<string, unknown>
  }
  throw protocolError('message.malformed', `${what} is not a record`)
}

/** The head of an item: its size in bytes, and the number of items it contains. */
interface Head {
  size: number
  items: number
}

/** Converts maps to records in which every key is an own property. */
function fromMaps(value: unknown): unknown {
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, each]) => [String(key), fromMaps(each)]))
  }
  return Array.isArray(value) ? value.map(fromMaps) : value
}

/**
 * Validates that `bytes[start, end)` is exactly one value, of allowed types and with plausible lengths. Returns
 * whether one of its texts is `__proto__`.
 */
function checkMsgpack(bytes: Uint8Array, start: number, end: number): boolean {
  let namesPrototype = false
  const head: Head = { size: 0, items: 0 }
  const open: number[] = [1]
  let at = start
  while (open.length > 0) {
    const left = open[open.length - 1] ?? 0
    if (left === 0) {
      open.pop()
      continue
    }
    open[open.length - 1] = left - 1
    if (at >= end) throw protocolError('message.truncated', 'a packed value ends early')
    readHead(bytes, at, end, head)
    if (isPrototype(bytes, at)) namesPrototype = true
    at += head.size
    // Each contained item takes at least one byte, so there cannot be more items than bytes.
    if (at > end || head.items > end - at) {
      throw protocolError('message.truncated', 'a packed value is shorter than it says')
    }
    if (head.items > 0) open.push(head.items)
    if (open.length > DEPTH_MAX) throw protocolError('message.malformed', 'nested too deeply')
  }
  if (at !== end) throw protocolError('message.malformed', `${end - at} bytes after the value`)
  return namesPrototype
}

const PROTOTYPE = '__proto__'

function isPrototype(bytes: Uint8Array, at: number): boolean {
  const type = bytes[at]
  const from = type === 0xa9 ? at + 1 : type === 0xd9 && bytes[at + 1] === 9 ? at + 2 : -1
  if (from < 0) return false
  for (let i = 0; i < PROTOTYPE.length; i++) {
    if (bytes[from + i] !== PROTOTYPE.charCodeAt(i)) return false
  }
  return true
}

function readHead(bytes: Uint8Array, at: number, end: number, head: Head): void {
  const type = bytes[at] ?? 0
  head.items = 0
  if (type <= 0x7f || type >= 0xe0) head.size = 1
  else if (type <= 0x8f) container(head, 1, (type & 0x0f) * 2)
  else if (type <= 0x9f) container(head, 1, type & 0x0f)
  else if (type <= 0xbf) head.size = 1 + (type & 0x1f)
  else readLongHead(type, bytes, at, end, head)
}

/** The length after the type byte, `width` bytes wide. */
function countAt(bytes: Uint8Array, at: number, end: number, width: number): number {
  if (at + 1 + width > end) throw protocolError('message.truncated', 'a length is cut')
  if (width === 1) return bytes[at + 1] ?? 0
  // Big-endian, as in msgpack.
  if (width === 2) return ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
  const swapped = readU32(bytes, at + 1)
  return (
    (((swapped & 0xff) << 24) |
      ((swapped & 0xff00) << 8) |
      ((swapped >>> 8) & 0xff00) |
      (swapped >>> 24)) >>>
    0
  )
}

function readLongHead(type: number, bytes: Uint8Array, at: number, end: number, head: Head): void {
  if (type === 0xc0 || type === 0xc2 || type === 0xc3) head.size = 1
  else if (type >= 0xc4 && type <= 0xc6) head.size = sizedAt(bytes, at, end, 1 << (type - 0xc4))
  else if (type >= 0xd9 && type <= 0xdb) head.size = sizedAt(bytes, at, end, 1 << (type - 0xd9))
  else if (type >= 0xcc && type <= 0xcf) head.size = 1 + (1 << (type - 0xcc))
  else if (type >= 0xd0 && type <= 0xd3) head.size = 1 + (1 << (type - 0xd0))
  else if (type === 0xca) head.size = 5
  else if (type === 0xcb) head.size = 9
  else if (type === 0xdc) container(head, 3, countAt(bytes, at, end, 2))
  else if (type === 0xdd) container(head, 5, countAt(bytes, at, end, 4))
  else if (type === 0xde) container(head, 3, countAt(bytes, at, end, 2) * 2)
  else if (type === 0xdf) container(head, 5, countAt(bytes, at, end, 4) * 2)
  else if (type >= 0xc7 && type <= 0xc9) readExtension(type, bytes, at, end, head)
  else if (type >= 0xd4 && type <= 0xd8) readFixedExtension(type, bytes, at, head)
  else throw protocolError('message.malformed', `packed type ${type} is not allowed`)
}

function container(head: Head, size: number, items: number): void {
  head.size = size
  head.items = items
}

function sizedAt(bytes: Uint8Array, at: number, end: number, width: number): number {
  return 1 + width + countAt(bytes, at, end, width)
}

function readExtension(type: number, bytes: Uint8Array, at: number, end: number, head: Head): void {
  const width = 1 << (type - 0xc7)
  const length = countAt(bytes, at, end, width)
  head.size = 2 + width + length
  expectTypedArray(bytes, at + 1 + width, length)
}

function readFixedExtension(type: number, bytes: Uint8Array, at: number, head: Head): void {
  const length = 1 << (type - 0xd4)
  head.size = 2 + length
  expectTypedArray(bytes, at + 1, length)
}

/** `length`: of the class and the numbers. The numbers must be whole, or the library could not decode them. */
function expectTypedArray(bytes: Uint8Array, at: number, length: number): void {
  const extension = bytes[at]
  if (extension !== EXT_TYPED_ARRAY) {
    throw protocolError(
      'message.malformed',
      `packed extension ${extension ?? 'cut'} is not allowed`,
    )
  }
  const elementBytes = ELEMENT_BYTES[bytes[at + 1] ?? -1]
  if (elementBytes === undefined || (length - 1) % elementBytes !== 0) {
    throw protocolError('message.malformed', 'a packed typed array has no whole numbers')
  }
}
