/**
 * Compares the workers that a watcher knows with the current ones: the only place that reports `joined` and `left`.
 */
import type { WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { DiscoveryObserver, LeaveReason } from './discovery.ts'

interface Known {
  readonly card: WorkerCard
  readonly text: string
}

export class FleetDiff {
  readonly #observer: DiscoveryObserver
  readonly #known = new Map<WorkerId, Known>()
  readonly #cards = new Map<WorkerId, WorkerCard>()

  constructor(observer: DiscoveryObserver) {
    this.#observer = observer
  }

  get cards(): ReadonlyMap<WorkerId, WorkerCard> {
    return this.#cards
  }

  /** `text`: the card as stored; an unchanged card is reported once. */
  seen(card: WorkerCard, text: string = JSON.stringify(card)): void {
    if (this.#known.get(card.workerId)?.text === text) return
    this.#known.set(card.workerId, { card, text })
    this.#cards.set(card.workerId, card)
    this.#observer.joined(card)
  }

  gone(workerId: WorkerId, reason: LeaveReason): void {
    if (!this.#known.delete(workerId)) return
    this.#cards.delete(workerId)
    this.#observer.left(workerId, reason)
  }
}
