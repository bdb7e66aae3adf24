/**
 * Discovery by a fixed list of workers, which do not register and never leave. The request plane finds out whether
 * they answer.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'

export class StaticDiscovery implements Discovery {
  readonly #cards: readonly WorkerCard[]

  /** Throws `config.invalid` when two workers have the same id. */
  constructor(cards: readonly WorkerCard[]) {
    const ids = new Set(cards.map((card) => card.workerId))
    if (ids.size !== cards.length) {
      throw new BatonError('config.invalid', 'two workers of the static list have the same id')
    }
    this.#cards = [...cards]
  }

  /** A worker in the list may register, which has no effect. */
  register(card: WorkerCard): Promise<Registration> {
    if (this.#cards.some((listed) => listed.workerId === card.workerId)) {
      return Promise.resolve({ update: () => Promise.resolve(), close: () => Promise.resolve() })
    }
    const message = `worker ${card.workerId} is not in the static list of workers`
    return Promise.reject(new BatonError('request.conflict', message))
  }

  watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    const diff = new FleetDiff(observer)
    for (const card of this.#cards) diff.seen(card)
    return Promise.resolve({ cards: diff.cards, close: () => undefined })
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
