/**
 * Room `network`: connections between processes.
 *
 * Owns the HTTP server (`http/`), fetches of media (`media/`), connections with framing, TLS and authentication
 * (`link/`), the request plane in process and over TCP (`plane/`) and the KV transport (`kv/`). Does not own what a
 * frame means (`wire`) or a reply says (`frontend`, `api`).
 * May use: base, request, kv, wire, engine, worker, frontend, os. For: `host`, `boostr`, `cli`, and programs that
 * embed Baton.
 */
export { HttpServer, TAKEN_PORT_REMEDY } from './http/http-server.ts'
export type { HttpTls } from './http/http-listener.ts'
export type { HttpServerOptions } from './http/http-server.ts'
export { KvTcpClient } from './kv/kv-tcp-client.ts'
export type { KvTcpClientOptions } from './kv/kv-tcp-client.ts'
export { KvTcpServer } from './kv/kv-tcp-server.ts'
export type { KvTcpServerOptions } from './kv/kv-tcp-server.ts'
export { openKvTcp } from './kv/open-kv.ts'
export type { OpenKv } from './kv/open-kv.ts'
export { listenError, listenOn } from './link/listen-on.ts'
export { WireSocket } from './link/wire-socket.ts'
export type { WireSocketOptions, WireTiming } from './link/wire-socket.ts'
export { createWireServer, dialWire, wireFailure } from './link/wire-tls.ts'
export type { WireTls } from './link/wire-tls.ts'
export { commandWorker, WorkerConversation } from './plane/ask-worker.ts'
export { WorkerCardLink } from './plane/worker-card-link.ts'
export { createMediaFetcher } from './media/media-fetcher.ts'
export { LocalRequestPlane } from './plane/local-request-plane.ts'
export type { FleetReports } from './plane/plane-reports.ts'
export { TcpRequestPlane } from './plane/tcp-request-plane.ts'
export type { TcpRequestPlaneOptions } from './plane/tcp-request-plane.ts'
export { TcpWorkerServer } from './plane/tcp-worker-server.ts'
export type { TcpWorkerServerOptions } from './plane/tcp-worker-server.ts'
