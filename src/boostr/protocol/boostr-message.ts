/**
 * The messages of the dialect: tags 10 and 30–36 with their exact layouts, and 37 of Baton. Little-endian, no magic, no
 * checksum.
 *
 *   10 ACTIVATION       [token i64 …]                    router → prefill
 *   30 PREFILL_REQUEST  [request u64][seq_len u32][decode_rank u32]
 *   31 PREFILL_DONE     [request u64][kv_bytes u64]      0 bytes: rejected or failed
 *   32 KV_CACHE         [length u64], then a second frame with the payload
 *   33 KV_CACHE_ACK     [0 u64]                      1, between Baton peers: the KV was refused
 *   34 DECODE_REQUEST   [request u64][max_new_tokens u32][0 u32]
 *   35 DECODE_TOKEN     [request u64][token i64]         −1: the generation has ended
 *   36 DECODE_DONE      [request u64], 8 or 16 bytes long
 *   37 REQUEST_CANCEL   [request u64][router rank u32][0 u32]      between Baton peers only; decode → router: a step failed
 *
 * Request ids and token ids have 64 bits and are bigint here, because −1 and −2^63 have special meanings.
 */
import { protocolError } from '../../wire/index.ts'
import { TAG, tagName } from '../../wire/index.ts'

/** On tag 35: nothing follows. */
export const TOKEN_END = -1n
/** Returned by a decode step: the sequence has ended; never part of the output. */
export const TOKEN_EOS = -(1n << 63n)

/** On tag 33. Original peers do not read it. */
const KV_REFUSED = 1n

export type BoostrMessage =
  | { readonly kind: 'activation'; readonly tokenIds: BigInt64Array }
  | {
      readonly kind: 'prefill-request'
      readonly requestId: bigint
      readonly seqLen: number
      readonly decodeRank: number
    }
  | { readonly kind: 'prefill-done'; readonly requestId: bigint; readonly kvBytes: bigint }
  | { readonly kind: 'kv-cache-ack'; readonly isRefused: boolean }
  | {
      readonly kind: 'decode-request'
      readonly requestId: bigint
      readonly maxNewTokens: number
    }
  | { readonly kind: 'decode-token'; readonly requestId: bigint; readonly tokenId: bigint }
  | { readonly kind: 'decode-done'; readonly requestId: bigint }
  | { readonly kind: 'request-cancel'; readonly requestId: bigint; readonly routerRank: number }

const TAG_OF = {
  activation: TAG.ACTIVATION,
  'prefill-request': TAG.PREFILL_REQUEST,
  'prefill-done': TAG.PREFILL_DONE,
  'kv-cache-ack': TAG.KV_CACHE_ACK,
  'decode-request': TAG.DECODE_REQUEST,
  'decode-token': TAG.DECODE_TOKEN,
  'decode-done': TAG.DECODE_DONE,
  'request-cancel': TAG.REQUEST_CANCEL,
} as const

/** A frame that is not yet on a connection. Tag 32 is not a message: it consists of two frames of raw bytes. */
export interface BoostrFrame {
  readonly tag: number
  readonly payload: Uint8Array
}

export function encodeBoostr(message: BoostrMessage): BoostrFrame {
  const tag = TAG_OF[message.kind]
  if (message.kind === 'activation') return { tag, payload: activationBytes(message.tokenIds) }
  const payload = new Uint8Array(
    message.kind === 'kv-cache-ack' || message.kind === 'decode-done' ? 8 : 16,
  )
  const view = new DataView(payload.buffer)
  if (message.kind === 'kv-cache-ack') {
    view.setBigUint64(0, message.isRefused ? KV_REFUSED : 0n, true)
    return { tag, payload }
  }
  view.setBigUint64(0, message.requestId, true)
  switch (message.kind) {
    case 'prefill-request':
      view.setUint32(8, message.seqLen, true)
      view.setUint32(12, message.decodeRank, true)
      break
    case 'prefill-done':
      view.setBigUint64(8, message.kvBytes, true)
      break
    case 'decode-request':
      view.setUint32(8, message.maxNewTokens, true)
      break
    case 'decode-token':
      view.setBigInt64(8, message.tokenId, true)
      break
    case 'request-cancel':
      view.setUint32(8, message.routerRank, true)
      break
    case 'decode-done':
      break
  }
  return { tag, payload }
}

/** Both frames of a KV cache: its length, and its bytes. */
export function encodeKvCache(kv: Uint8Array): readonly [BoostrFrame, BoostrFrame] {
  const header = new Uint8Array(8)
  new DataView(header.buffer).setBigUint64(0, BigInt(kv.length), true)
  return [
    { tag: TAG.KV_CACHE, payload: header },
    { tag: TAG.KV_CACHE, payload: kv },
  ]
}

/** The length that the first frame of tag 32 announces. */
export function decodeKvCacheHeader(payload: Uint8Array): number {
  expectLength(TAG.KV_CACHE, payload, 8)
  const length = viewOf(payload).getBigUint64(0, true)
  if (length > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw protocolError('message.out_of_range', `a KV cache of ${length} bytes`)
  }
  return Number(length)
}

/** Throws `transport.protocol` for a wrong length. Not for tag 32. */
export function decodeBoostr(tag: number, payload: Uint8Array): BoostrMessage {
  const view = viewOf(payload)
  const requestId = (): bigint => view.getBigUint64(0, true)
  switch (tag) {
    case TAG.ACTIVATION:
      return { kind: 'activation', tokenIds: activationIds(payload) }
    case TAG.PREFILL_REQUEST:
      expectLength(tag, payload, 16)
      return {
        kind: 'prefill-request',
        requestId: requestId(),
        seqLen: view.getUint32(8, true),
        decodeRank: view.getUint32(12, true),
      }
    case TAG.PREFILL_DONE:
      expectLength(tag, payload, 16)
      return {
        kind: 'prefill-done',
        requestId: requestId(),
        kvBytes: view.getBigUint64(8, true),
      }
    case TAG.KV_CACHE_ACK:
      expectLength(tag, payload, 8)
      return { kind: 'kv-cache-ack', isRefused: view.getBigUint64(0, true) === KV_REFUSED }
    case TAG.DECODE_REQUEST:
      expectLength(tag, payload, 16)
      return {
        kind: 'decode-request',
        requestId: requestId(),
        maxNewTokens: view.getUint32(8, true),
      }
    case TAG.DECODE_TOKEN:
      expectLength(tag, payload, 16)
      return {
        kind: 'decode-token',
        requestId: requestId(),
        tokenId: view.getBigInt64(8, true),
      }
    case TAG.DECODE_DONE:
      // One side of the original sends 8 bytes and the other reads 16: both are accepted.
      if (payload.length !== 16) expectLength(tag, payload, 8)
      return { kind: 'decode-done', requestId: requestId() }
    case TAG.REQUEST_CANCEL:
      expectLength(tag, payload, 16)
      return {
        kind: 'request-cancel',
        requestId: requestId(),
        routerRank: view.getUint32(8, true),
      }
    default:
      throw protocolError('frame.unknown_tag', `${tagName(tag)} does not belong to this dialect`, {
        tag,
      })
  }
}

function expectLength(tag: number, payload: Uint8Array, length: number): void {
  if (payload.length === length) return
  throw protocolError(
    'message.malformed',
    `${tagName(tag)} has ${payload.length} bytes instead of ${length}`,
    { tag, length: payload.length },
  )
}

function activationBytes(tokenIds: BigInt64Array): Uint8Array {
  const bytes = new Uint8Array(tokenIds.length * 8)
  const view = new DataView(bytes.buffer)
  tokenIds.forEach((id, i) => view.setBigInt64(i * 8, id, true))
  return bytes
}

function activationIds(payload: Uint8Array): BigInt64Array {
  if (payload.length % 8 !== 0) {
    throw protocolError(
      'message.malformed',
      `${payload.length} bytes are no whole number of token ids`,
    )
  }
  const view = viewOf(payload)
  return BigInt64Array.from({ length: payload.length / 8 }, (_, i) => view.getBigInt64(i * 8, true))
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
