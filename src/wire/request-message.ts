/**
 * REQUEST: `[stream u64][token count u32][token ids u32 …][the rest of the request, msgpack]`.
 *
 * The prompt is sent as raw little-endian numbers, because it is long; everything else is small.
 */
import { BatonError, isRecord } from '../base/index.ts'
import { isKvOffer } from '../request/index.ts'
import type { GenerateRequest } from '../request/index.ts'
import { REQUEST_BYTES_MAX } from './frame-limits.ts'
import type { FrameWriter } from './frame-writer.ts'
import { PayloadReader, bytesOfU32s } from './payload-reader.ts'
import { decodeRecord, encodePlain } from './plain-value.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'

/**
 * Throws `request.invalid_argument` or `request.payload_too_large` for values that cannot be sent; then nothing is
 * written.
 */
export function encodeRequest(
  writer: FrameWriter,
  streamId: number,
  request: GenerateRequest,
): void {
  const { tokenIds, ...rest } = request
  const packed = encodePlain(rest, 'the request')
  const length = 12 + tokenIds.byteLength + packed.length
  if (length > REQUEST_BYTES_MAX) {
    const text = `a request of ${length} bytes is over the wire's limit of ${REQUEST_BYTES_MAX}`
    throw new BatonError('request.payload_too_large', text, { data: { length } })
  }
  writer.begin(TAG.REQUEST).u64(streamId).u32(tokenIds.length)
  writer.end(tokenIds.byteLength + packed.length)
  writer.follow(bytesOfU32s(tokenIds)).bytes(packed)
}

export interface RequestMessage {
  readonly streamId: number
  readonly request: GenerateRequest
}

/** Throws `transport.protocol`. Copies everything that it keeps. */
export function decodeRequest(bytes: Uint8Array, start: number, end: number): RequestMessage {
  const reader = new PayloadReader(bytes, start, end)
  const streamId = reader.u64()
  const tokenIds = reader.u32s(reader.u32())
  const rest = decodeRecord(bytes, end - reader.remaining, end, 'the request')
  checkShape(rest)
  return { streamId, request: { ...rest, tokenIds } }
}

type RequestRest = Omit<GenerateRequest, 'tokenIds'>

/** Validates the fields that later code uses without checks. */
function checkShape(
  rest: Record<string, unknown>,
): asserts rest is Record<string, unknown> & RequestRest {
  for (const name of ['requestId', 'model'] as const) {
    if (typeof rest[name] !== 'string') throw malformed(name)
  }
  for (const name of ['sampling', 'stop', 'output', 'routing'] as const) {
    if (!isRecord(rest[name])) throw malformed(name)
  }
  const { kind } = rest
  if (kind !== undefined && kind !== 'embed') throw malformed('kind')
  if (!isNumberList(rest['eosTokenIds'])) throw malformed('eosTokenIds')
  const prefill = rest['prefillResult']
  if (prefill === undefined) return
  if (!isRecord(prefill)) throw malformed('prefillResult')
  const offer = prefill['kvOffer']
  if (offer !== undefined && !isKvOffer(offer)) throw malformed('prefillResult.kvOffer')
}

function isNumberList(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'number')
}

function malformed(name: string): Error {
  return protocolError('message.malformed', `the request's '${name}' is missing or invalid`)
}
