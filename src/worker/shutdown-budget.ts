/**
 * One time budget for the whole shutdown, started once at the signal and never reset.
 *
 * Each stage may use the smaller of its own limit and what is left. Only cleanup always gets a minimum, because an
 * engine that is not cleaned up may keep a device occupied.
 */
import type { Clock } from '../base/index.ts'

export type ShutdownStage =
  | 'unregister'
  | 'router_grace'
  | 'stop_admission'
  | 'inflight'
  | 'kv_transfer'
  | 'cleanup'

export type StageReason = 'completed' | 'timed_out' | 'skipped' | 'cancelled' | 'unsupported'

export interface StageReport {
  readonly stage: ShutdownStage
  readonly reason: StageReason
  readonly elapsedMs: number
  readonly note?: string
}

export interface ShutdownConfig {
  /** From the signal to the end of the last stage, in milliseconds. */
  readonly totalMs: number
  /** Time to keep serving while routers learn that this worker leaves, in milliseconds. */
  readonly routerGraceMs: number
  readonly inflightMs: number
  readonly kvTransferMs: number
  readonly cleanupMs: number
  /** A process that still runs this long after `totalMs` exits with code 70. */
  readonly forceExitAfterMs: number
}

export const DEFAULT_SHUTDOWN: ShutdownConfig = Object.freeze({
  totalMs: 35_000,
  routerGraceMs: 5_000,
  inflightMs: Infinity,
  kvTransferMs: 30_000,
  cleanupMs: 30_000,
  forceExitAfterMs: 5_000,
})

export const CLEANUP_FLOOR_MS = 5_000

export class ShutdownBudget {
  readonly #clock: Clock
  readonly #startMs: number
  readonly #config: ShutdownConfig

  constructor(clock: Clock, config: ShutdownConfig) {
    this.#clock = clock
    this.#config = config
    this.#startMs = clock.nowMs()
  }

  get remainingMs(): number {
    return Math.max(0, this.#startMs + this.#config.totalMs - this.#clock.nowMs())
  }

  allowanceMs(stage: ShutdownStage): number {
    const left = this.remainingMs
    switch (stage) {
      case 'router_grace':
        return Math.min(this.#config.routerGraceMs, left)
      case 'inflight':
        return Math.min(this.#config.inflightMs, left)
      case 'kv_transfer':
        return Math.min(this.#config.kvTransferMs, left)
      case 'cleanup':
        return Math.min(this.#config.cleanupMs, Math.max(left, CLEANUP_FLOOR_MS))
      default:
        return left
    }
  }
}
