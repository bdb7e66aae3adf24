/**
 * Discovery by a list: workers that are known beforehand and do not register. They never leave; whether they answer
 * is for the request plane to find out.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'

export class StaticDiscovery implements Discovery {
  readonly #cards: readonly WorkerCard[]

  /** Throws `config.invalid` when two workers have one id. */
  constructor(cards: readonly WorkerCard[]) {
    const ids = new Set(cards.map((card) => card.workerId))
    if (ids.size !== cards.length) {
      throw new BatonError('config.invalid', 'two workers of the static list have the same id')
    }
    this.#cards = [...cards]
  }

  /** A worker that stands in the list may register: nothing changes by it. */
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
