/**
 * Room `wire`: the protocol between Baton processes: frames, messages, versions.
 *
 * Owns frames and messages, their limits, handshake and versions; no sockets. May use: base, request, kv. For:
 * network, worker, boostr.
 */
export { decodeAnswer, encodeAnswer, encodeAsk } from './ask-message.ts'
export { decodeKvEvents, decodeLoad, encodeKvEvents, encodeLoad } from './fleet-message.ts'
export { FrameDecoder } from './frame-decoder.ts'
export { FRAME_SUMS, SummedOutput } from './frame-sums.ts'
export { readU32 } from './u32.ts'
export type { FrameHandler } from './frame-decoder.ts'
export {
  ACTIVATION_BYTES_MAX,
  batonLimits,
  boostrLimits,
  KV_CACHE_BYTES_MAX,
  PEER_BYTES_MAX,
  STRANGER_BYTES_MAX,
  strangerLimits,
} from './frame-limits.ts'
export type { FrameLimits } from './frame-limits.ts'
export { FrameWriter } from './frame-writer.ts'
export { Handshake } from './handshake.ts'
export type { HandshakeOptions, HandshakeSide } from './handshake.ts'
export {
  CARD_NEWS,
  NONCE_BYTES,
  WIRE_VERSION,
  WIRE_VERSION_OLDEST,
  decodeHello,
  encodeHello,
} from './hello.ts'
export type { Hello, HelloBody, WireRole } from './hello.ts'
export {
  KV_CHUNK_HEAD_BYTES,
  KV_KEYED_SUMS,
  KV_UNCHECKED,
  decodeKvChunkHead,
  decodeKvPull,
  decodeKvPullEnd,
  decodeKvRelease,
  encodeKvChunkHead,
  encodeKvPull,
  encodeKvPullEnd,
  encodeKvRelease,
} from './kv-message.ts'
export type {
  KvChunkHead,
  KvPullEndMessage,
  KvPullMessage,
  KvReleaseKind,
  KvReleaseMessage,
} from './kv-message.ts'
export { kvChecksum, keyedChecksum } from './kv-checksum.ts'
export { KvEventGaps } from './kv-event-gaps.ts'
export { workOfBatch, workOfEvent } from './kv-event-work.ts'
export { wholeKvSnapshot } from './kv-snapshot.ts'
export type { KvSnapshot } from './kv-snapshot.ts'
export { KvOfferBook } from './kv-offer-book.ts'
export type { HeldOffer, KvOfferBookOptions } from './kv-offer-book.ts'
export type {
  KvBlockReader,
  KvClient,
  KvHold,
  KvOfferOptions,
  KvPullStats,
  KvPullTarget,
  KvReleaseReason,
  KvServer,
  KvServerStats,
} from './kv-transport.ts'
export { PayloadReader } from './payload-reader.ts'
export { decodePlain, decodeRecord, encodePlain } from './plain-value.ts'
export { protocolError } from './protocol-error.ts'
export type { ProtocolFault } from './protocol-error.ts'
export {
  decodeCancel,
  decodeChunk,
  decodeError,
  encodeCancel,
  encodeChunk,
  encodeCredit,
  encodeError,
  forEachPair,
} from './reply-message.ts'
export type { CancelKind, CancelMessage, ChunkMessage, ErrorMessage } from './reply-message.ts'
export type {
  ReplyPort,
  ServedRequest,
  WorkerAnswers,
  WorkerHandler,
  WorkerUplink,
} from './reply-port.ts'
export { decodeRequest, encodeRequest } from './request-message.ts'
export type { RequestMessage } from './request-message.ts'
export { SKIPPABLE, TAG, tagName } from './tag.ts'
export type { TagName } from './tag.ts'
