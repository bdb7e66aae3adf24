/**
 * Room `boostr`: prefill, decode and router roles that speak boostr's tags 30 to 36 without Baton's handshake.
 *
 * Owns the messages and state machines (`protocol/`, held pure by tidy) and their sockets (`sockets/`).
 * May use: base, api, wire, frontend, os, network. For: `baton boostr`.
 */
export type { DecodeStepFunction } from './protocol/boostr-decode-worker.ts'
export { TOKEN_EOS } from './protocol/boostr-message.ts'
export type { PrefillFunction } from './protocol/boostr-prefill-worker.ts'
export { createDisaggConfig } from './protocol/disagg-config.ts'
export { boostrHealth } from './sockets/boostr-health.ts'
export type { BoostrHealth } from './sockets/boostr-health.ts'
export { listenBoostrHttp } from './sockets/boostr-http.ts'
export { BoostrMesh } from './sockets/boostr-mesh.ts'
export type { BoostrMeshNode, BoostrMeshOptions } from './sockets/boostr-mesh.ts'
export { hostBoostrDecode, hostBoostrPrefill, hostBoostrRouter } from './sockets/boostr-roles.ts'
export type { HostedBoostr } from './sockets/boostr-roles.ts'
