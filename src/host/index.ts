/** Room `host`. */
export { FrontendMetrics } from './frontend-metrics.ts'
export { createLogger, FrontendLog, observeWithAll } from './frontend-log.ts'
export type { LogLevel } from './frontend-log.ts'
export { HttpServer } from './http-server.ts'
export type { HttpServerOptions } from './http-server.ts'
export { loadModelText, readGgufFile } from './model-files.ts'
export type { LoadedModelText } from './model-files.ts'
export { osClock } from './os-clock.ts'
export { osRandom } from './os-random.ts'
export { TokenizerThread } from './tokenizer-thread.ts'
export { WorkerSupervisor } from './worker-supervisor.ts'
export type {
  SupervisorEvent,
  WorkerProcess,
  WorkerReport,
  WorkerSpec,
} from './worker-supervisor.ts'
export { LocalRequestPlane } from './planes/local-request-plane.ts'
export type { FleetReports } from './planes/plane-reports.ts'
export { TcpRequestPlane } from './planes/tcp-request-plane.ts'
export type { TcpRequestPlaneOptions } from './planes/tcp-request-plane.ts'
export { TcpWorkerServer } from './planes/tcp-worker-server.ts'
export type { TcpWorkerServerOptions } from './planes/tcp-worker-server.ts'
export { LlamaCppEngine } from './engines/llamacpp/index.ts'
export type { LlamaCppOptions } from './engines/llamacpp/index.ts'
export type {
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  LeaveReason,
} from './discovery/discovery.ts'
export { FileDiscovery } from './discovery/file-discovery.ts'
export type { FileDiscoveryOptions } from './discovery/file-discovery.ts'
export { MemoryDiscovery } from './discovery/memory-discovery.ts'
export { StaticDiscovery } from './discovery/static-discovery.ts'
export { HostedWorker } from './hosted-worker.ts'
export type { HostedWorkerOptions, WorkerPlane } from './hosted-worker.ts'
export { openKvTcp } from './open-kv.ts'
export type { KvTcpEndsOptions, OpenKv } from './open-kv.ts'
export { runWorkerProcess } from './worker-process.ts'
export type { WorkerProcessOptions } from './worker-process.ts'
export { KvTcpClient } from './planes/kv-tcp-client.ts'
export type { KvTcpClientOptions } from './planes/kv-tcp-client.ts'
export { KvTcpServer } from './planes/kv-tcp-server.ts'
export type { KvTcpServerOptions } from './planes/kv-tcp-server.ts'
export { listenWorkerAdmin } from './worker-admin.ts'
export type { WorkerAdminOptions } from './worker-admin.ts'
export { observeWorkerWithAll, workerLog } from './worker-log.ts'
export { WorkerMetrics } from './worker-metrics.ts'
