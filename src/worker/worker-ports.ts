/**
 * What a worker needs from outside: a network address and a place in discovery. Room `host` provides the real ones,
 * the simulator and tests their own.
 */
import type {
  EngineConfig,
  ModelAgreement,
  ModelTextManifest,
  WorkerCard,
} from '../request/index.ts'
import type { WorkerUplink } from '../wire/index.ts'
import type { KvEnds } from './kv-hand-off.ts'

/** Where the worker's request plane listens. */
export interface WorkerAddress {
  readonly host: string
  readonly port: number
  /** Absent: nobody subscribes to blocks and load. */
  readonly uplink?: WorkerUplink
  /** Absent: the engine transfers its KV itself, or not at all. */
  readonly kv?: KvEnds
  /** What the worker must have in common with the other workers of its model. */
  readonly agreement?: ModelAgreement
  /** Tokenizer and template files that a frontend can fetch from here. */
  readonly text?: ModelTextManifest
}

/** A worker's entry in discovery. It expires if it is not renewed. */
export interface Registration {
  update(card: WorkerCard): Promise<void>
  /** Idempotent. Watchers are told `left` at once. */
  close(): Promise<void>
}

export interface WorkerPorts {
  /** Called once, after the engine has started and before the worker is registered. */
  open(config: EngineConfig): Promise<WorkerAddress>
  /** Called after `open`, and again by `resume`. */
  register(card: WorkerCard): Promise<Registration>
}
