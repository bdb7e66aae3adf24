/** Room `wire`: frames, messages and versions; what crosses between processes. */
export { decodeKvEvents, decodeLoad, encodeKvEvents, encodeLoad } from './fleet-message.ts'
export { FrameDecoder, readU32 } from './frame-decoder.ts'
export type { FrameHandler } from './frame-decoder.ts'
export {
  TOKEN_END,
  TOKEN_EOS,
  decodeBoostr,
  decodeKvCacheHeader,
  encodeBoostr,
  encodeKvCache,
} from './boostr/boostr-message.ts'
export type { BoostrFrame, BoostrMessage } from './boostr/boostr-message.ts'
export { BoostrDecodeWorker } from './boostr/boostr-decode-worker.ts'
export type { BoostrDecodeOptions, DecodeStepFunction } from './boostr/boostr-decode-worker.ts'
export type { BoostrLink, BoostrNode, BoostrPeers } from './boostr/boostr-link.ts'
export { BoostrPrefillWorker } from './boostr/boostr-prefill-worker.ts'
export type { BoostrPrefillOptions, PrefillFunction } from './boostr/boostr-prefill-worker.ts'
export { BoostrRouter } from './boostr/boostr-router.ts'
export type { BoostrReply, BoostrRoute, BoostrRouterOptions } from './boostr/boostr-router.ts'
export { createDisaggConfig } from './boostr/disagg-config.ts'
export type { DisaggConfig } from './boostr/disagg-config.ts'
export { unwrapKv, wrapKv } from './boostr/kv-envelope.ts'
export type { KvEnvelope, UnwrappedKv } from './boostr/kv-envelope.ts'
export { decodeKvF32, encodeKvF32 } from './boostr/kv-f32.ts'
export type { KvCacheF32, KvLayerF32 } from './boostr/kv-f32.ts'
export { batonLimits, boostrLimits } from './frame-limits.ts'
export type { FrameLimits } from './frame-limits.ts'
export { FrameWriter } from './frame-writer.ts'
export { Handshake } from './handshake.ts'
export type { HandshakeOptions, HandshakeSide } from './handshake.ts'
export {
  NONCE_BYTES,
  WIRE_VERSION,
  WIRE_VERSION_OLDEST,
  decodeHello,
  encodeHello,
} from './hello.ts'
export type { Hello, HelloBody, WireRole } from './hello.ts'
export {
  KV_CHUNK_HEAD_BYTES,
  KV_UNCHECKED,
  PULL_BY_SHM,
  decodeKvArena,
  decodeKvChunkHead,
  decodeKvPlaced,
  decodeKvPull,
  decodeKvPullEnd,
  decodeKvRelease,
  decodeNumber,
  encodeKvArena,
  encodeKvArenaReady,
  encodeKvChunkHead,
  encodeKvPlaced,
  encodeKvPull,
  encodeKvPullEnd,
  encodeKvRelease,
  encodeKvTaken,
} from './kv-message.ts'
export type {
  KvArenaMessage,
  KvChunkHead,
  KvPlacedMessage,
  KvPullEndMessage,
  KvPullMessage,
  KvReleaseKind,
  KvReleaseMessage,
} from './kv-message.ts'
export { kvChecksum } from './kv-checksum.ts'
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
export type { ReplyPort, ServedRequest, WorkerHandler, WorkerUplink } from './reply-port.ts'
export { decodeRequest, encodeRequest, isKvOffer } from './request-message.ts'
export type { RequestMessage } from './request-message.ts'
export { SKIPPABLE, TAG, tagName } from './tag.ts'
export type { TagName } from './tag.ts'
