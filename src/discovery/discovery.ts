/**
 * How workers become known: who registers, and who is notified.
 *
 * A watcher is first told of every registered worker, then of each that joins, changes or leaves. A worker that no
 * longer renews its entry is gone after the time to live, whatever happened to it. Implementations: `memory` (one
 * process), `file` (one machine), `static` (a list that never changes), `nats` (many machines); one conformance kit holds
 * for all.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'

export type LeaveReason = 'closed' | 'expired' | 'process-died'

export interface DiscoveryObserver {
  /** Also called when the card of a known worker has changed. */
  joined(card: WorkerCard): void
  left(workerId: WorkerId, reason: LeaveReason): void
  /** An entry that cannot be read; it is left alone and counted as not there. */
  unreadable?(entry: string, why: string): void
  /** The place where workers register is gone: what is known stays in use. */
  discoveryAway?(why: string): void
  discoveryBack?(): void
}

/** What happens to a registration after it was made. */
export interface RegistrationObserver {
  /** The entry was gone and has been made again. */
  restored?(why: string): void
  /** It is tried again at the next beat; told once until a renewal has succeeded. */
  renewalFailed?(error: BatonError): void
}

export interface DiscoveryWatch {
  /** The workers that the observer has been told of and that have not left. */
  readonly cards: ReadonlyMap<WorkerId, WorkerCard>
  /** Idempotent; nothing is reported after it has returned. */
  close(): void
}

/** From one frontend to all others of the fleet; what cannot be sent now is lost. */
export interface PeerChannel {
  tell(topic: string, body: unknown): void
  onTold(topic: string, listener: (body: unknown) => void): void
}

export interface Discovery {
  /** Rejects with `request.conflict` when the id is taken by another live worker. */
  register(card: WorkerCard, observer?: RegistrationObserver): Promise<Registration>
  /** Resolves when the observer has been told of all registered workers. */
  watch(observer: DiscoveryObserver): Promise<DiscoveryWatch>
  /** The way to the other frontends, once `watch` has resolved; absent: this place has none. */
  peers?(): PeerChannel
  /** Idempotent; ends every watch and every registration that was made here. */
  close(): Promise<void>
}
