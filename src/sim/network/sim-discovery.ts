/**
 * Discovery in the simulated network: a worker's entry is reported to every watcher, and disappears when it signs
 * off or when it is no longer renewed.
 */
import type { Clock, WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'
import type { NetworkDice } from './network-faults.ts'

interface DiscoveryWatcher {
  joined(card: WorkerCard): void
  left(workerId: WorkerId, reason: string): void
}

export class SimDiscovery {
  readonly #clock: Clock
  readonly #dice: NetworkDice
  readonly #cards = new Map<WorkerId, WorkerCard>()
  readonly #watchers: DiscoveryWatcher[] = []

  constructor(clock: Clock, dice: NetworkDice) {
    this.#clock = clock
    this.#dice = dice
  }

  watch(watcher: DiscoveryWatcher): void {
    this.#watchers.push(watcher)
    for (const card of this.#cards.values()) watcher.joined(card)
  }

  register(card: WorkerCard): Promise<Registration> {
    this.#join(card)
    return Promise.resolve({
      update: (changed: WorkerCard) => {
        this.#join(changed)
        return Promise.resolve()
      },
      close: () => {
        this.#leave(card.workerId, 'closed')
        return Promise.resolve()
      },
    })
  }

  /** Nobody renews the entry, so it ends with its lease. */
  processDied(workerId: WorkerId): void {
    this.#clock.after(this.#dice.faults.leaseMs, () => this.#leave(workerId, 'expired'))
  }

  #join(card: WorkerCard): void {
    this.#cards.set(card.workerId, card)
    this.#tell((watcher) => watcher.joined(card))
    if (this.#dice.happens(this.#dice.faults.controlDuplicate))
      this.#tell((watcher) => watcher.joined(card))
  }

  #leave(workerId: WorkerId, reason: string): void {
    if (!this.#cards.delete(workerId)) return
    this.#tell((watcher) => watcher.left(workerId, reason))
  }

  /** In order: a later report never arrives before an earlier one. */
  #tell(tell: (watcher: DiscoveryWatcher) => void): void {
    const { delayMs } = this.#dice.faults
    for (const watcher of this.#watchers) {
      if (delayMs === 0) tell(watcher)
      else this.#clock.after(delayMs, () => tell(watcher))
    }
  }
}
