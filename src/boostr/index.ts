/**
 * Room `boostr`: prefill, decode and router roles that speak boostr's tags 30 to 36 without Baton's handshake.
 *
 * Owns the messages and state machines (`protocol/`, held pure by tidy) and their sockets (`sockets/`).
 * May use: base, api, wire, frontend, os, network. For: `baton boostr`.
 */
export { BoostrDecodeWorker } from './protocol/boostr-decode-worker.ts'
export type { BoostrDecodeOptions, DecodeStepFunction } from './protocol/boostr-decode-worker.ts'
export type { BoostrLink, BoostrNode, BoostrPeers } from './protocol/boostr-link.ts'
export {
  TOKEN_END,
  TOKEN_EOS,
  decodeBoostr,
  decodeKvCacheHeader,
  encodeBoostr,
  encodeKvCache,
} from './protocol/boostr-message.ts'
export type { BoostrFrame, BoostrMessage } from './protocol/boostr-message.ts'
export { BoostrPrefillWorker } from './protocol/boostr-prefill-worker.ts'
export type { BoostrPrefillOptions, PrefillFunction } from './protocol/boostr-prefill-worker.ts'
export { BoostrRouter } from './protocol/boostr-router.ts'
export type { BoostrReply, BoostrRoute, BoostrRouterOptions } from './protocol/boostr-router.ts'
export { createDisaggConfig } from './protocol/disagg-config.ts'
export type { DisaggConfig } from './protocol/disagg-config.ts'
export { unwrapKv, wrapKv } from './protocol/kv-envelope.ts'
export type { KvEnvelope, UnwrappedKv } from './protocol/kv-envelope.ts'
export { decodeKvF32, encodeKvF32 } from './protocol/kv-f32.ts'
export type { KvCacheF32, KvLayerF32 } from './protocol/kv-f32.ts'
export { listenBoostrHttp } from './sockets/boostr-http.ts'
export { BoostrMesh } from './sockets/boostr-mesh.ts'
export type { BoostrMeshNode, BoostrMeshOptions } from './sockets/boostr-mesh.ts'
export { hostBoostrDecode, hostBoostrPrefill, hostBoostrRouter } from './sockets/boostr-roles.ts'
export type { HostedBoostr } from './sockets/boostr-roles.ts'
