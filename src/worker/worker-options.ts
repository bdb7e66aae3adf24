/** The options of a worker, and their defaults. */
import type { Clock, WorkerId } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import type { DisaggregationMode, EngineConfig, GenerateRequest } from '../request/index.ts'
import type { KvFailurePolicy } from './kv-hand-off.ts'
import type { ShutdownConfig } from './shutdown-budget.ts'
import { DEFAULT_SHUTDOWN } from './shutdown-budget.ts'
import type { WorkerObserver } from './worker-event.ts'

export interface WorkerOptions {
  readonly engine: Engine
  /** Name of the engine kind: `llamacpp`, `sim`. */
  readonly engineName: string
  readonly mode: DisaggregationMode
  readonly workerId: WorkerId
  readonly version: string
  readonly clock: Clock
  readonly observe?: WorkerObserver
  readonly pid?: number
  readonly taints?: readonly string[]
  readonly topology?: Readonly<Record<string, string>>
  /** See `WorkerCard.weight`. */
  readonly weight?: number
  /** The worker can change its mode on request. */
  readonly changesRole?: boolean
  /** Overrides of the engine's reported configuration, for operators of a third-party engine. */
  readonly describe?: ((config: EngineConfig) => EngineConfig) | undefined
  /** Added to the engine's reported configuration, for example which parsers its output needs. */
  readonly runtimeData?: Readonly<Record<string, unknown>>
  readonly limits?: Partial<WorkerLimits>
  readonly shutdown?: Partial<ShutdownConfig>
  /** Probe request instead of the engine's own; null: no probe. */
  readonly canary?: GenerateRequest | null | undefined
}

export interface WorkerLimits {
  /** Maximum number of concurrent requests, including those queued in the engine; more are refused. */
  readonly requestsMax: number
  /** Deadline of the engine's start; large models take many minutes to load. */
  readonly startTimeoutMs: number
  /** An orderly stop that takes longer is ended without the engine. */
  readonly cancelTimeoutMs: number
  /** An engine that has requests but shows no sign of life for this long counts as hung. */
  readonly stallTimeoutMs: number
  readonly kvLeaseMs: number
  readonly kvPullTimeoutMs: number
  readonly kvFailure: KvFailurePolicy
  /** Interval of probes of an idle worker; Infinity: never. */
  readonly canaryIdleMs: number
  readonly canaryTimeoutMs: number
}

export const DEFAULT_LIMITS: WorkerLimits = Object.freeze({
  requestsMax: 1024,
  startTimeoutMs: 1_800_000,
  cancelTimeoutMs: 10_000,
  stallTimeoutMs: 120_000,
  kvLeaseMs: 60_000,
  kvPullTimeoutMs: 30_000,
  kvFailure: 'fail',
  canaryIdleMs: 30_000,
  canaryTimeoutMs: 10_000,
})

export function limitsOf(options: WorkerOptions): WorkerLimits {
  return Object.freeze({ ...DEFAULT_LIMITS, ...options.limits })
}

export function shutdownOf(
  options: WorkerOptions,
  overrides: Partial<ShutdownConfig> = {},
): ShutdownConfig {
  return Object.freeze({ ...DEFAULT_SHUTDOWN, ...options.shutdown, ...overrides })
}
