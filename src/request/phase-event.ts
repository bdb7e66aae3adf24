/**
 * The phases of a request as one stream of events: each layer below HTTP reports to the sink, and metrics, log lines,
 * traces and the console use the same events.
 *
 *   prefillQueued → routed → prefillStarted → prefillDone → decodeQueued → routed → kvTransferred → decodeStarted
 *
 * A request that is not disaggregated has one leg, `aggregated`, and no decode events. A leg that is retried on
 * another worker reports again. `atMs` is on the clock of the reporting process; times measured by a worker are
 * durations, because clocks of different processes differ.
 */
import { isRecord } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { LatencyGoals } from './latency-goals.ts'

/** Kind of a leg. */
export type Phase = 'aggregated' | 'prefill' | 'decode'

/** The leg needs a worker of its pool; it is queued until `routed`. */
export interface LegQueued {
  readonly kind: 'prefillQueued' | 'decodeQueued'
  readonly phase: Phase
  /** The latency goals of the request and its class; reported with the first leg. */
  readonly goals?: LatencyGoals
  readonly atMs: number
}

/** A worker has been chosen for the leg. */
export interface RoutedEvent {
  readonly kind: 'routed'
  readonly phase: Phase
  readonly workerId: WorkerId
  readonly dpRank?: number
  /** Prompt blocks that are cached on the worker, in any tier. */
  readonly overlapBlocks: number
  readonly promptBlocks: number
  /** Time spent in the router's queue. */
  readonly queuedMs: number
  /** Other requests in the queue of the pool when the request left it. Absent: nothing was booked. */
  readonly queueDepth?: number
  /** Time that the decision took. */
  readonly decisionMs: number
  readonly atMs: number
  /** Conditional disaggregation chose one worker for prefill and decode. */
  readonly bypassesPrefill?: boolean
}

/** The engine has started the prompt (`prefillStarted`) or the output (`decodeStarted`). */
interface LegStarted {
  readonly kind: 'prefillStarted' | 'decodeStarted'
  readonly phase: Phase
  readonly workerId: WorkerId
  /** From dispatch to start, without KV transfer: network and the engine's own queue. */
  readonly queuedMs: number
  readonly atMs: number
}

/** The first token of a leg that computes the prompt. */
interface PrefillDone {
  readonly kind: 'prefillDone'
  readonly phase: Phase
  readonly workerId: WorkerId
  /** From start to first token. */
  readonly elapsedMs: number
  readonly atMs: number
}

/** How a decode worker obtained the prompt's KV. */
export interface KvTransfer {
  readonly elapsedMs: number
  readonly bytes: number
  readonly blocksPulled: number
  /** Prompt blocks that were already cached on the worker. */
  readonly blocksHeld: number
  /** The transfer failed and the prompt was computed again. */
  readonly recomputed: boolean
}

interface KvTransferred extends KvTransfer {
  readonly kind: 'kvTransferred'
  readonly workerId: WorkerId
  readonly atMs: number
}

export type PhaseEvent = LegQueued | RoutedEvent | LegStarted | PrefillDone | KvTransferred

/** Times measured by a worker up to its first token; sent once, with or before that token. */
export interface LegStart {
  /** From admission to the engine's start, without KV transfer. */
  readonly queuedMs: number
  /** From the engine's start until now. */
  readonly computeMs: number
  readonly transfer?: KvTransfer
}

/** Validated, because a worker of another version may send anything here. */
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
