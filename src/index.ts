/**
 * The main door of the package: what an application that embeds Baton puts together. `examples/embedded.ts` does it.
 *
 * Authors of engines, routing rules, tools on the wire and plans of fleets have doors of their own: `/engine`, `/router`,
 * `/wire`, `/sim`.
 */
export { BatonError, ERROR_CODES, seededRandom, workerIdOf } from './base/index.ts'
export type { Clock, ErrorCode, Random, WorkerId } from './base/index.ts'
export { SimEngine } from './engine/index.ts'
export type { Engine, SimEngineOptions } from './engine/index.ts'
export { Frontend } from './frontend/index.ts'
export type {
  FrontendLimits,
  FrontendObserver,
  FrontendOptions,
  HttpReply,
  HttpRequest,
  HttpStream,
  Migration,
  RequestEnd,
  RequestFacts,
  StreamWriter,
} from './frontend/index.ts'
export {
  BoostrMesh,
  BootstrapRooms,
  createLogger,
  FileDiscovery,
  FrontendLog,
  FrontendMetrics,
  hostBoostrDecode,
  hostBoostrPrefill,
  hostBoostrRouter,
  HostedWorker,
  HttpServer,
  KvTcpClient,
  KvTcpServer,
  LlamaCppEngine,
  loadModelText,
  LocalRequestPlane,
  MemoryDiscovery,
  mockArgFiles,
  observeWithAll,
  openKvTcp,
  osClock,
  osRandom,
  StaticDiscovery,
  TcpRequestPlane,
  TcpWorkerServer,
  TokenizerThread,
  WorkerMetrics,
  ZmqKvBroadcast,
} from './host/index.ts'
export type {
  BoostrMeshNode,
  BoostrMeshOptions,
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  FileDiscoveryOptions,
  FleetReports,
  HostedBoostr,
  HostedWorkerOptions,
  HttpServerOptions,
  KvTcpClientOptions,
  KvTcpServerOptions,
  LeaveReason,
  LlamaCppOptions,
  LoadedModelText,
  OpenKv,
  TcpRequestPlaneOptions,
  TcpWorkerServerOptions,
  WorkerPlane,
  ZmqKvBroadcastOptions,
} from './host/index.ts'
export type {
  Chunk,
  DisaggregationMode,
  EngineConfig,
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
  RequestService,
  WorkerCard,
} from './request/index.ts'
export { createModelRouter } from './router/index.ts'
export type { ModelRouter, ModelRouterOptions, RouterOptions } from './router/index.ts'
export { guidedGrammar, modelTextFromGguf, modelTextFromHuggingFace } from './text/index.ts'
export type { ModelText, Tokenizer } from './text/index.ts'
export { Worker } from './worker/index.ts'
export type {
  ShutdownConfig,
  ShutdownReport,
  WorkerHealth,
  WorkerLimits,
  WorkerObserver,
  WorkerOptions,
} from './worker/index.ts'
