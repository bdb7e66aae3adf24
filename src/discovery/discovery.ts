/**
 * Discovery: workers register, and watchers are told about them.
 *
 * A watcher is first told about every registered worker, then about each that joins, changes or leaves. A worker
 * that stops renewing its entry has left after the time to live, whatever happened to it. Implementations: `memory`
 * (one process), `file` (one machine), `static` (a fixed list), `nats` and `kubernetes` (many machines). One
 * conformance kit tests all of them.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'

/** `replaced`: another worker has its address now. */
export type LeaveReason = 'closed' | 'expired' | 'process-died' | 'replaced'

export interface DiscoveryObserver {
  /** Also called when the card of a known worker has changed. */
  joined(card: WorkerCard): void
  left(workerId: WorkerId, reason: LeaveReason): void
  /** An entry that cannot be read is ignored and counts as absent. */
  unreadable?(entry: string, why: string): void
  /**
   * With a list of addresses: why no worker could be asked for its card at this one. Null: a worker answers now, or the
   * address is not listed any more.
   */
  unanswered?(address: string, why: string | null): void
  /** With a list of addresses: one that leads to a worker that is used at another one. Once for each pair of them. */
  alsoAt?(workerId: WorkerId, address: string, used: string): void
  /** The discovery service is unavailable; known workers stay in use. */
  discoveryAway?(why: string): void
  discoveryBack?(): void
  /** The discovery service refuses a part of what this process asks for; the rest works. Once for each part. */
  refused?(why: string): void
}

/** Reports events of a registration. */
export interface RegistrationObserver {
  /** The entry had disappeared and was written again. */
  restored?(why: string): void
  /** The next heartbeat tries again. Reported once until a renewal succeeds. */
  renewalFailed?(error: BatonError): void
}

export interface DiscoveryWatch {
  /** The workers that were reported as joined and have not left. */
  readonly cards: ReadonlyMap<WorkerId, WorkerCard>
  /** Idempotent; nothing is reported after it has returned. */
  close(): void
}

/**
 * A broadcast channel from one frontend to all others of the fleet. Messages that cannot be sent at once are lost.
 */
export interface PeerChannel {
  tell(topic: string, body: unknown): void
  onTold(topic: string, listener: (body: unknown) => void): void
}

export interface Discovery {
  /** Rejects with `request.conflict` when another live worker has the id. */
  register(card: WorkerCard, observer?: RegistrationObserver): Promise<Registration>
  /** Resolves when the observer has been told about all registered workers. */
  watch(observer: DiscoveryObserver): Promise<DiscoveryWatch>
  /** The channel to the other frontends, after `watch` has resolved; absent: not supported. */
  peers?(): PeerChannel
  /** Idempotent; ends every watch and every registration made through this object. */
  close(): Promise<void>
}
