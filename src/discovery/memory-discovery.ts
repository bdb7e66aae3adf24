/**
 * Discovery within one process: a map and its watchers. An entry exists as long as the process.
 */
import type { WorkerId } from '../base/index.ts'
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'

export class MemoryDiscovery implements Discovery {
  readonly #cards = new Map<WorkerId, WorkerCard>()
  readonly #watchers = new Set<FleetDiff>()

  register(card: WorkerCard): Promise<Registration> {
    const { workerId } = card
    if (this.#cards.has(workerId)) {
      return Promise.reject(
        new BatonError('request.conflict', `worker ${workerId} is registered already`),
      )
    }
    let isOpen = true
    this.#put(card)
    return Promise.resolve({
      update: (changed) => {
        if (isOpen) this.#put({ ...changed, workerId })
        return Promise.resolve()
      },
      close: () => {
        if (isOpen) this.#remove(workerId)
        isOpen = false
        return Promise.resolve()
      },
    })
  }

  watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    const diff = new FleetDiff(observer)
    this.#watchers.add(diff)
    for (const card of this.#cards.values()) diff.seen(card)
    return Promise.resolve({ cards: diff.cards, close: () => void this.#watchers.delete(diff) })
  }

  close(): Promise<void> {
    this.#watchers.clear()
    this.#cards.clear()
    return Promise.resolve()
  }

  #put(card: WorkerCard): void {
    this.#cards.set(card.workerId, card)
    for (const watcher of this.#watchers) watcher.seen(card)
  }

  #remove(workerId: WorkerId): void {
    if (!this.#cards.delete(workerId)) return
    for (const watcher of this.#watchers) watcher.gone(workerId, 'closed')
  }
}
