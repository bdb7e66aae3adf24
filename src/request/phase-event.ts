/**
 * The phases of a request's life as one stream of values: every layer below HTTP tells a sink what has just happened, and
 * metrics, log lines, traces and the console read the same events.
 *
 *   prefillQueued → routed → prefillStarted → prefillDone → decodeQueued → routed → kvTransferred → decodeStarted
 *
 * A request that is not disaggregated has one leg, `aggregated`, and no decode events. A leg that is tried again at another
 * worker is notified again. `atMs` is of the clock of the process that tells; what a worker has measured is a duration, as
 * clocks of two processes differ.
 */
import { isRecord } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { LatencyGoals } from './latency-goals.ts'

/** Which leg of a request runs somewhere. */
export type Phase = 'aggregated' | 'prefill' | 'decode'

/** The leg asks its pool for a worker; it waits, if at all, until `routed`. */
export interface LegQueued {
  readonly kind: 'prefillQueued' | 'decodeQueued'
  readonly phase: Phase
  /** What it is to keep, its own goals and those of its class; told with the first leg. */
  readonly goals?: LatencyGoals
  readonly atMs: number
}

/** The leg has been placed on a worker. */
export interface RoutedEvent {
  readonly kind: 'routed'
  readonly phase: Phase
  readonly workerId: WorkerId
  readonly dpRank?: number
  /** Of the prompt that the worker holds, wherever it keeps them. */
  readonly overlapBlocks: number
  readonly promptBlocks: number
  /** The wait for a worker that has capacity. */
  readonly queuedMs: number
  /** Others that waited in the queue of this pool when the request left it. Absent: nothing was booked. */
  readonly queueDepth?: number
  /** The choice among the workers. */
  readonly decisionMs: number
  readonly atMs: number
  /** The prompt was not worth a prefill worker: one worker does both. */
  readonly bypassesPrefill?: boolean
}

/** The engine has begun with the prompt (`prefillStarted`) or with the output (`decodeStarted`). */
export interface LegStarted {
  readonly kind: 'prefillStarted' | 'decodeStarted'
  readonly phase: Phase
  readonly workerId: WorkerId
  /** From dispatch to start, without a KV transfer: the way there and the engine's own queue. */
  readonly queuedMs: number
  readonly atMs: number
}

/** The first token of a leg that computes the prompt. */
export interface PrefillDone {
  readonly kind: 'prefillDone'
  readonly phase: Phase
  readonly workerId: WorkerId
  /** From start to first token. */
  readonly elapsedMs: number
  readonly atMs: number
}

/** What a decode worker did to have the prompt's KV. */
export interface KvTransfer {
  readonly elapsedMs: number
  readonly bytes: number
  readonly blocksPulled: number
  /** Blocks of the prompt that the worker had already. */
  readonly blocksHeld: number
  /** The KV did not arrive and the prompt was computed again. */
  readonly recomputed: boolean
}

export interface KvTransferred extends KvTransfer {
  readonly kind: 'kvTransferred'
  readonly workerId: WorkerId
  readonly atMs: number
}

export type PhaseEvent = LegQueued | RoutedEvent | LegStarted | PrefillDone | KvTransferred

/** What a worker has measured of a leg up to its first token; told once, with or before that token. */
export interface LegStart {
  /** From admission to the engine's start, without the KV transfer. */
  readonly queuedMs: number
  /** From the engine's start to now. */
  readonly computeMs: number
  readonly transfer?: KvTransfer
}

/** A worker of another version may send anything here. */
export function isLegStart(value: unknown): value is LegStart {
  if (!isRecord(value) || !isMeasure(value['queuedMs']) || !isMeasure(value['computeMs']))
    return false
  const { transfer } = value
  if (transfer === undefined) return true
  if (!isRecord(transfer) || typeof transfer['recomputed'] !== 'boolean') return false
  const { elapsedMs, bytes, blocksPulled, blocksHeld } = transfer
  return [elapsedMs, bytes, blocksPulled, blocksHeld].every(isMeasure)
}

function isMeasure(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
