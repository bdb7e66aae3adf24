/**
 * What a watcher knows, compared with what is there: the one place where `joined` and `left` are decided.
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

  /** `text` is the card as it was stored; an unchanged one is reported once. */
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
