/**
 * Messages about a running request: TOKENS, CHUNK, FINISH, ERROR, CANCEL, CREDIT.
 *
 *   TOKENS  [stream u32][token u32] …          one frame per engine step, for all streams of the connection
 *   CHUNK   [stream u64][chunk, msgpack]       FINISH the same, for the terminal chunk
 *   ERROR   [stream u64][error, msgpack]       terminal
 *   CANCEL  [stream u64][kind u8]              1 stop, 2 kill
 *   CREDIT  [stream u32][items u32] …          the reader can take this many more tokens and chunks
 *
 * A stream id is assigned by the frontend, is unique for the life of the connection and fits into u32; where a
 * payload begins with `u64` the upper half is zero.
 */
import { BatonError } from '../base/index.ts'
import type { ErrorData } from '../base/index.ts'
import type { Chunk } from '../request/index.ts'
import { CHUNK_BYTES_MAX } from './frame-limits.ts'
import { readU32 } from './u32.ts'
import type { FrameWriter } from './frame-writer.ts'
import { PayloadReader } from './payload-reader.ts'
import { decodeRecord, encodePlain } from './plain-value.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'

const PAIR_BYTES = 8
const FINISH_REASONS: readonly string[] = ['stop', 'eos', 'length', 'cancelled', 'content_filter']

export function encodeChunk(writer: FrameWriter, streamId: number, chunk: Chunk): void {
  const packed = encodePlain(chunk, 'a chunk')
  if (8 + packed.length > CHUNK_BYTES_MAX) {
    const text = `a chunk of ${packed.length} bytes is over the wire's limit`
    throw new BatonError('request.payload_too_large', text, { data: { length: packed.length } })
  }
  const tag = chunk.finish === undefined ? TAG.CHUNK : TAG.FINISH
  writer.begin(tag).u64(streamId).bytes(packed).end()
}

export interface ChunkMessage {
  readonly streamId: number
  readonly chunk: Chunk
}

/** For CHUNK and FINISH: exactly the terminal chunk has `finish`. */
export function decodeChunk(
  tag: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): ChunkMessage {
  const streamId = new PayloadReader(bytes, start, end).u64()
  const record = decodeRecord(bytes, start + 8, end, 'a chunk')
  const { tokenIds, text, finish, embedding } = record
  const isTokens = Array.isArray(tokenIds) && tokenIds.every((id) => typeof id === 'number')
  const isFinish = typeof finish === 'string' && FINISH_REASONS.includes(finish)
  if (!isTokens || (tag === TAG.FINISH ? !isFinish : finish !== undefined)) {
    throw protocolError('message.malformed', 'a chunk has no tokens or an invalid finish reason')
  }
  if (text !== undefined && typeof text !== 'string') {
    throw protocolError('message.malformed', 'the text of a chunk is not a string')
  }
  if (embedding !== undefined && !(embedding instanceof Float32Array)) {
    throw protocolError('message.malformed', 'an embedding is not a list of f32')
  }
  return { streamId, chunk: record as unknown as Chunk }
}

export function encodeError(writer: FrameWriter, streamId: number, error: BatonError): void {
  const packed = encodePlain(error.toValue(), 'an error')
  writer.begin(TAG.ERROR).u64(streamId).bytes(packed).end()
}

export interface ErrorMessage {
  readonly streamId: number
  readonly error: BatonError
}

export function decodeError(bytes: Uint8Array, start: number, end: number): ErrorMessage {
  const streamId = new PayloadReader(bytes, start, end).u64()
  const { code, message, data } = decodeRecord(bytes, start + 8, end, 'an error')
  if (typeof code !== 'string' || typeof message !== 'string') {
    throw protocolError('message.malformed', 'an error has no code or message')
  }
  const hasData = typeof data === 'object' && data !== null
  const value = { code, message, ...(hasData ? { data: data as ErrorData } : {}) }
  return { streamId, error: BatonError.fromValue(value) }
}

export type CancelKind = 'stop' | 'kill'

export function encodeCancel(writer: FrameWriter, streamId: number, kind: CancelKind): void {
  writer
    .begin(TAG.CANCEL)
    .u64(streamId)
    .u8(kind === 'stop' ? 1 : 2)
    .end()
}

export interface CancelMessage {
  readonly streamId: number
  readonly kind: CancelKind
}

export function decodeCancel(bytes: Uint8Array, start: number, end: number): CancelMessage {
  const reader = new PayloadReader(bytes, start, end)
  const streamId = reader.u64()
  const kind = reader.u8()
  if (kind !== 1 && kind !== 2) throw protocolError('message.malformed', `cancel kind ${kind}`)
  reader.expectEnd('CANCEL')
  return { streamId, kind: kind === 1 ? 'stop' : 'kill' }
}

export function encodeCredit(writer: FrameWriter, streamId: number, items: number): void {
  writer.begin(TAG.CREDIT).u32(streamId).u32(items).end()
}

/** For TOKENS and CREDIT: calls back for each pair of u32, so that a token needs no memory. */
export function forEachPair(
  bytes: Uint8Array,
  start: number,
  end: number,
  visit: (first: number, second: number) => void,
): void {
  if ((end - start) % PAIR_BYTES !== 0) {
    throw protocolError('message.malformed', `${end - start} bytes are not whole pairs`)
  }
  for (let at = start; at < end; at += PAIR_BYTES) {
    visit(readU32(bytes, at), readU32(bytes, at + 4))
  }
}
