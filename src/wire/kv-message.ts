/**
 * Messages that transfer a KV cache over a bulk connection.
 *
 *   KV_PULL      [pull u32][flags u32][count u32][index u32 …][offer id, utf-8]
 *   KV_CHUNK     [pull u32][index u32][block bytes u32][offset u32][checksum u32][bytes]       chunks of a block in order
 *   KV_PULL_END  [pull u32][error, msgpack]?                                              no error: all was sent
 *   KV_RELEASE   [reason u32: 1 acknowledged, 2 abandoned][offer id, utf-8]
 */
import { BatonError } from '../base/index.ts'
import type { ErrorData } from '../base/index.ts'
import type { FrameWriter } from './frame-writer.ts'
import { PayloadReader, bytesOfU32s } from './payload-reader.ts'
import { decodeRecord, encodePlain } from './plain-value.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'

/** Bytes before the block data in a KV_CHUNK. */
export const KV_CHUNK_HEAD_BYTES = 20
/** Capability of a KV server that sends no checksums: its chunks are not verified. */
export const KV_UNCHECKED = 'kv-unchecked'
/** Capability of both sides: checksums also cover a chunk's place and its block's key (`keyedChecksum`). Version 0.1.0 lacks it. */
export const KV_KEYED_SUMS = 'kv-keyed-sums'
const OFFER_ID_BYTES_MAX = 256

export interface KvPullMessage {
  readonly pullId: number
  readonly flags: number
  readonly indexes: Uint32Array
  readonly offerId: string
}

export function encodeKvPull(writer: FrameWriter, message: KvPullMessage): void {
  writer.begin(TAG.KV_PULL).u32(message.pullId).u32(message.flags).u32(message.indexes.length)
  writer.bytes(bytesOfU32s(message.indexes)).bytes(new TextEncoder().encode(message.offerId)).end()
}

export function decodeKvPull(bytes: Uint8Array, start: number, end: number): KvPullMessage {
  const reader = new PayloadReader(bytes, start, end)
  const pullId = reader.u32()
  const flags = reader.u32()
  const indexes = reader.u32s(reader.u32())
  return { pullId, flags, indexes, offerId: offerIdOf(reader) }
}

/** Position of a piece of a block, and its checksum (`kvChecksum`; 0 if there is none). */
export interface KvChunkHead {
  readonly pullId: number
  readonly index: number
  readonly blockBytes: number
  readonly offset: number
  readonly checksum: number
}

/** Writes the head; the caller sends the `length` bytes of the chunk right after it. */
export function encodeKvChunkHead(writer: FrameWriter, head: KvChunkHead, length: number): void {
  writeHead(writer.begin(TAG.KV_CHUNK), head).end(length)
}

export function decodeKvChunkHead(bytes: Uint8Array): KvChunkHead {
  return readHead(new PayloadReader(bytes))
}

export interface KvPullEndMessage {
  readonly pullId: number
  readonly error?: BatonError
}

export function encodeKvPullEnd(writer: FrameWriter, message: KvPullEndMessage): void {
  writer.begin(TAG.KV_PULL_END).u32(message.pullId)
  if (message.error) writer.bytes(encodePlain(message.error.toValue(), 'an error'))
  writer.end()
}

export function decodeKvPullEnd(bytes: Uint8Array, start: number, end: number): KvPullEndMessage {
  const pullId = new PayloadReader(bytes, start, end).u32()
  if (end - start === 4) return { pullId }
  const { code, message, data } = decodeRecord(bytes, start + 4, end, 'an error')
  const hasData = typeof data === 'object' && data !== null
  const value = { code: String(code), message: String(message) }
  const error = BatonError.fromValue(hasData ? { ...value, data: data as ErrorData } : value)
  return { pullId, error }
}

export type KvReleaseKind = 'acknowledged' | 'abandoned'

export interface KvReleaseMessage {
  readonly kind: KvReleaseKind
  readonly offerId: string
}

export function encodeKvRelease(writer: FrameWriter, message: KvReleaseMessage): void {
  writer.begin(TAG.KV_RELEASE).u32(message.kind === 'acknowledged' ? 1 : 2)
  writer.bytes(new TextEncoder().encode(message.offerId)).end()
}

export function decodeKvRelease(bytes: Uint8Array, start: number, end: number): KvReleaseMessage {
  const reader = new PayloadReader(bytes, start, end)
  const kind = reader.u32()
  if (kind !== 1 && kind !== 2) throw protocolError('message.malformed', `release kind ${kind}`)
  return { kind: kind === 1 ? 'acknowledged' : 'abandoned', offerId: offerIdOf(reader) }
}

function writeHead(writer: FrameWriter, head: KvChunkHead): FrameWriter {
  return writer
    .u32(head.pullId)
    .u32(head.index)
    .u32(head.blockBytes)
    .u32(head.offset)
    .u32(head.checksum)
}

function readHead(reader: PayloadReader): KvChunkHead {
  return {
    pullId: reader.u32(),
    index: reader.u32(),
    blockBytes: reader.u32(),
    offset: reader.u32(),
    checksum: reader.u32(),
  }
}

function offerIdOf(reader: PayloadReader): string {
  if (reader.remaining > OFFER_ID_BYTES_MAX) {
    throw protocolError('message.malformed', 'the offer id is too long')
  }
  return textOf(reader.rest())
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw protocolError('message.malformed', 'a text is not valid UTF-8', {}, error)
  }
}
