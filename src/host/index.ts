/**
 * Room `host`: a worker or a frontend as a process.
 *
 * Owns a worker's process and its supervisor (`worker/`), metrics and logs (`observe/`), traces (`traces/`), API
 * keys (`access/`), several frontends behind one port (`group/`), tokenizers off the event loop (`tokenizer/`), exit
 * codes and signals (`process/`), and the simulated engine's files and ports (`simengine/`).
 * May use: base, request, text, engine, simengine, router, worker, frontend, os, network, discovery. For: `cli`, and
 * programs that embed Baton.
 */
export { FrontendMetrics } from './observe/frontend-metrics.ts'
export { KeyBook } from './access/key-book.ts'
export { followKeyBucket, keyBucket } from './access/key-bucket.ts'
export { createKey } from './access/key-entry.ts'
export { isWorldWritable, keyFile } from './access/key-file.ts'
export type { KeyStore } from './access/key-store.ts'
export { discoveryLog } from './observe/discovery-log.ts'
export { fleetLog } from './observe/fleet-log.ts'
export { createLogger, frontendLog } from './observe/frontend-log.ts'
export { loadTraces } from './traces/open-traces.ts'
export type { ReceiverOptions, Traces, TracesOfWorkers, TracesOptions } from './traces/traces.ts'
export { observeWithAll } from './observe/observe-with-all.ts'
export { loadModelText } from './tokenizer/model-files.ts'
export type { LoadedModelText } from './tokenizer/model-files.ts'
export { fetchText, TextCacheFault } from './tokenizer/fetch-text.ts'
export type { TextSource } from './tokenizer/fetch-text.ts'
export { localModelPath } from './tokenizer/hub-cache.ts'
export { modelTextDigest } from './tokenizer/model-digest.ts'
export { LongTexts } from './tokenizer/long-texts.ts'
export { TokenizerThreads } from './tokenizer/tokenizer-threads.ts'
export { EXIT_FAILED, EXIT_IN_HASTE, EXIT_MISUSED, exitCodeOf } from './process/exit-codes.ts'
export { watchShutdownSignals } from './process/shutdown-signals.ts'
export { FrontendGroup, SHARES_BY_KERNEL } from './group/frontend-group.ts'
export type { FrontendGroupEvent } from './group/frontend-group.ts'
export { FrontendSiblings } from './group/frontend-siblings.ts'
export type { FrontendReport, ParentMessage } from './group/group-message.ts'
export { mergeMetrics } from './observe/merged-metrics.ts'
export { WorkerSupervisor } from './worker/worker-supervisor.ts'
export type { SupervisorEvent } from './worker/worker-supervisor.ts'
export type { WorkerExitReport, WorkerReport } from './worker/worker-report.ts'
export { BootstrapRooms } from './simengine/bootstrap-rooms.ts'
export { ZmqKvBroadcast } from './simengine/zmq-kv-broadcast.ts'
export type { ZmqKvBroadcastOptions } from './simengine/zmq-kv-broadcast.ts'
export { mockArgFiles } from './simengine/mock-arg-files.ts'
export { HostedWorker } from './worker/hosted-worker.ts'
export type { HostedWorkerOptions, WorkerPlane } from './worker/hosted-worker.ts'
export { runWorkerInRoles, runWorkerProcess } from './worker/worker-process.ts'
export type { WorkerProcessOptions } from './worker/worker-process.ts'
export { workerLog } from './observe/worker-log.ts'
export { WorkerMetrics } from './observe/worker-metrics.ts'
