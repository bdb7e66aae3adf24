/**
 * The main door of the package: what an application that embeds Baton puts together. `examples/embedded.ts` does it.
 *
 * Authors of engines, routing rules, tools on the wire and plans of fleets have doors of their own: `/engine`, `/router`,
 * `/wire`, `/sim`; `/testing` has the conformance kits.
 */
export { BatonError, ERROR_CODES, seededRandom, workerIdOf } from './base/index.ts'
export type { Clock, ErrorCode, Random, WorkerId } from './base/index.ts'
export { SimEngine } from './simengine/index.ts'
export type { Engine } from './engine/index.ts'
export type { SimEngineOptions } from './simengine/index.ts'
export { Frontend } from './frontend/index.ts'
export type {
  FrontendEvent,
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
  hostBoostrDecode,
  hostBoostrPrefill,
  hostBoostrRouter,
} from './boostr/index.ts'
export {
  BootstrapRooms,
  createLogger,
  frontendLog,
  FrontendMetrics,
  HostedWorker,
  loadModelText,
  mockArgFiles,
  observeWithAll,
  runWorkerProcess,
  LongTexts,
  TokenizerThreads,
  WorkerMetrics,
  ZmqKvBroadcast,
} from './host/index.ts'
export { FileDiscovery, MemoryDiscovery, StaticDiscovery } from './discovery/index.ts'
export {
  HttpServer,
  KvTcpClient,
  KvTcpServer,
  LocalRequestPlane,
  openKvTcp,
  TcpRequestPlane,
  TcpWorkerServer,
} from './network/index.ts'
export { LlamaCppEngine } from './llamacpp/index.ts'
export { osClock, osRandom } from './os/index.ts'
export type { BoostrMeshNode, BoostrMeshOptions, HostedBoostr } from './boostr/index.ts'
export type {
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  FileDiscoveryOptions,
  LeaveReason,
} from './discovery/index.ts'
export type {
  FleetReports,
  HttpServerOptions,
  KvTcpClientOptions,
  KvTcpServerOptions,
  OpenKv,
  TcpRequestPlaneOptions,
  TcpWorkerServerOptions,
} from './network/index.ts'
export type {
  HostedWorkerOptions,
  LoadedModelText,
  WorkerPlane,
  WorkerProcessOptions,
  ZmqKvBroadcastOptions,
} from './host/index.ts'
export type { LlamaCppOptions } from './llamacpp/index.ts'
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
