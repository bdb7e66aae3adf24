/**
 * What a worker needs of the world outside: an address where it can be reached, and a place where it is known.
 * `host` has the real ones; the simulator and the tests have theirs.
 */
import type {
  EngineConfig,
  ModelAgreement,
  ModelTextManifest,
  WorkerCard,
} from '../request/index.ts'
import type { WorkerUplink } from '../wire/index.ts'
import type { KvEnds } from './kv-hand-off.ts'

/** Where the request plane of a worker listens. */
export interface WorkerAddress {
  readonly host: string
  readonly port: number
  /** Absent: no subscribers for blocks and load. */
  readonly uplink?: WorkerUplink
  /** Absent: the engine moves its KV itself, or not at all. */
  readonly kv?: KvEnds
  /** What the worker's model must have in common with the others of its name. */
  readonly agreement?: ModelAgreement
  /** What a frontend without the model can fetch from here. */
  readonly text?: ModelTextManifest
}

/** A worker's entry in discovery. It disappears by itself when it is no longer renewed. */
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
