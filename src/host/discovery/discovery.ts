/**
 * How workers become known: who registers, and who is told.
 *
 * A watcher first hears of every worker that is there, then of each that comes, changes or goes. A worker that no
 * longer renews its entry is gone after the time to live, whatever happened to it. Implementations: `memory` (one
 * process), `file` (one machine), `static` (a list that never changes); one conformance kit holds for all.
 */
import type { WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'

export type LeaveReason = 'closed' | 'expired' | 'process-died'

export interface DiscoveryObserver {
  /** Also called when the card of a known worker has changed. */
  joined(card: WorkerCard): void
  left(workerId: WorkerId, reason: LeaveReason): void
  /** An entry that cannot be read; it is left alone and counted as not there. */
  unreadable?(entry: string, why: string): void
}

export interface DiscoveryWatch {
  /** The workers that the observer has been told of and that have not left. */
  readonly cards: ReadonlyMap<WorkerId, WorkerCard>
  /** Idempotent; nothing is told after it has returned. */
  close(): void
}

export interface Discovery {
  /** Rejects with `request.conflict` when the id is taken by another live worker. */
  register(card: WorkerCard): Promise<Registration>
  /** Resolves when the observer has heard of all that are there. */
  watch(observer: DiscoveryObserver): Promise<DiscoveryWatch>
  /** Idempotent; ends every watch and every registration that was made here. */
  close(): Promise<void>
}
