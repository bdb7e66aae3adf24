/**
 * The messages between a worker process and its parent.
 */
import type { ErrorValue } from '../../base/index.ts'
import type { ShutdownReport } from '../../worker/index.ts'

/** The last message of a worker process: how each stage of its shutdown ended. */
export interface WorkerExitReport {
  readonly kind: 'ended'
  readonly exitCode: number
  readonly stages: ShutdownReport['stages']
}

/** The message of a worker process to its parent when it has started, or failed to. */
export type WorkerReport =
  | {
      readonly kind: 'ready'
      readonly workerId: string
      readonly port: number
      readonly adminPort?: number
    }
  | { readonly kind: 'failed'; readonly error: ErrorValue }

/** A later message of a worker: it wants to be replaced and will then exit. */
export interface WorkerReplaceWish {
  readonly kind: 'replace-me'
}

/**
 * From the parent: first that it restarts this worker on request or when it exits; later that the replacement
 * serves.
 */
export interface SupervisedNotice {
  readonly kind: 'supervised' | 'replaced'
}
