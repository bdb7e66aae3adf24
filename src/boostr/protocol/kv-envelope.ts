/**
 * The envelope that Baton's prefill puts before a KV payload of tag 32, which itself carries no id.
 *
 * [start position u32][magic u32][router rank u32][version u32][request u64][last token i64][kv …]
 *
 * The first number is the start position, as the original reads it, so a decode worker that does not know the
 * envelope still starts at the right position. With it, KV is paired with its DECODE_REQUEST by id instead of by
 * order.
 */
export interface KvEnvelope {
  readonly startPosition: number
  readonly routerRank: number
  readonly requestId: bigint
  readonly lastToken: bigint
}

/** "BKV1". */
const MAGIC = 0x31564b42
const VERSION = 1
export const KV_ENVELOPE_BYTES = 32

export function wrapKv(envelope: KvEnvelope, kv: Uint8Array): Uint8Array {
  const payload = new Uint8Array(KV_ENVELOPE_BYTES + kv.length)
  const view = new DataView(payload.buffer)
  view.setUint32(0, envelope.startPosition, true)
  view.setUint32(4, MAGIC, true)
  view.setUint32(8, envelope.routerRank, true)
  view.setUint32(12, VERSION, true)
  view.setBigUint64(16, envelope.requestId, true)
  view.setBigInt64(24, envelope.lastToken, true)
  payload.set(kv, KV_ENVELOPE_BYTES)
  return payload
}

export interface UnwrappedKv {
  /** Null: the peer sent none; then only the start position is known. */
  readonly envelope: KvEnvelope | null
  readonly startPosition: number
  readonly kv: Uint8Array
}

export function unwrapKv(payload: Uint8Array): UnwrappedKv {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength)
  const startPosition = payload.length >= 4 ? view.getUint32(0, true) : 0
  const isWrapped =
    payload.length >= KV_ENVELOPE_BYTES &&
    view.getUint32(4, true) === MAGIC &&
    view.getUint32(12, true) === VERSION
  if (!isWrapped) return { envelope: null, startPosition, kv: payload }
  const envelope = {
    startPosition,
    routerRank: view.getUint32(8, true),
    requestId: view.getBigUint64(16, true),
    lastToken: view.getBigInt64(24, true),
  }
  return { envelope, startPosition, kv: payload.subarray(KV_ENVELOPE_BYTES) }
}
