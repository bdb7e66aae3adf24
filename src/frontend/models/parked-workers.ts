/**
 * Workers that an administrator has drained. They have left discovery, so their address is stored here. A
 * worker that comes back by itself or cannot be reached any more is removed.
 */
import type { WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'

const PARKED_MAX = 1_024

export class ParkedWorkers {
  readonly #cards = new Map<WorkerId, WorkerCard>()

  get cards(): readonly WorkerCard[] {
    return [...this.#cards.values()]
  }

  cardOf(workerId: WorkerId): WorkerCard | undefined {
    return this.#cards.get(workerId)
  }

  park(card: WorkerCard): void {
    this.#cards.delete(card.workerId)
    this.#cards.set(card.workerId, card)
    for (const oldest of this.#cards.keys()) {
      if (this.#cards.size <= PARKED_MAX) break
      this.#cards.delete(oldest)
    }
  }

  joined(workerId: WorkerId): void {
    this.#cards.delete(workerId)
  }

  forget(workerId: WorkerId): void {
    this.#cards.delete(workerId)
  }
}
