/**
 * Room `worker`: runs an engine as a member of a fleet.
 *
 * Owns admission, sessions (one request each), KV hand-over, KV events, load reports, drain and shutdown. May use:
 * base, request, kv, wire, engine. For: host, which provides sockets and files.
 */
export type { KvEnds } from './kv-hand-off.ts'
export { DEFAULT_SHUTDOWN } from './shutdown-budget.ts'
export type { ShutdownConfig, ShutdownStage, StageReason } from './shutdown-budget.ts'
export type { ShutdownReport } from './shutdown-sequence.ts'
export { Worker } from './worker.ts'
export type { WorkerHealth, WorkerStatus } from './worker-health.ts'
export type { WorkerEvent, WorkerObserver, WorkerState } from './worker-event.ts'
export { DEFAULT_LIMITS } from './worker-options.ts'
export type { WorkerLimits, WorkerOptions } from './worker-options.ts'
export type { Registration, WorkerAddress } from './worker-ports.ts'
