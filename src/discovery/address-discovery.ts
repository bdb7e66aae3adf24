/**
 * Discovery by addresses: somebody else knows where workers are (a list, Kubernetes), and each worker is asked for its
 * card. Workers register nowhere.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import { checkCard } from './card-file.ts'
import type { HostPort } from './discovery-url.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'
import { leaseOf } from './lease.ts'
import { Renewals } from './renewals.ts'

export interface AddressDiscoveryOptions {
  /** Asked at every look. When it rejects, discovery is away. */
  readonly addresses: () => Promise<readonly HostPort[]>
  /** Null: the worker takes no requests now. Rejects when it cannot be reached. */
  readonly fetchCard: (address: HostPort) => Promise<unknown>
  /** A worker that did not answer for so long is gone. */
  /** Nobody asks any more. */
  readonly onClose?: () => void
  readonly ttlMs?: number
  readonly pollMs?: number
}

const ASKED_AT_ONCE = 32

export class AddressDiscovery implements Discovery {
  readonly #options: AddressDiscoveryOptions
  readonly #watches = new Set<AddressWatch>()

  constructor(options: AddressDiscoveryOptions) {
    this.#options = options
  }

  /** Nothing to do: who asks at the worker's address gets its card. */
  register(_card: WorkerCard): Promise<Registration> {
    return Promise.resolve({ update: () => Promise.resolve(), close: () => Promise.resolve() })
  }

  async watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    const watch = new AddressWatch(this.#options, observer)
    this.#watches.add(watch)
    await watch.open()
    return watch
  }

  close(): Promise<void> {
    for (const watch of this.#watches) watch.close()
    this.#watches.clear()
    this.#options.onClose?.()
    return Promise.resolve()
  }
}

class AddressWatch implements DiscoveryWatch {
  readonly #options: AddressDiscoveryOptions
  readonly #observer: DiscoveryObserver
  readonly #diff: FleetDiff
  readonly #renewals: Renewals
  readonly #pollMs: number
  readonly #workerAt = new Map<string, WorkerId>()
  readonly #faults = new Map<string, string>()
  #poll: NodeJS.Timeout | null = null
  #looks = 0
  #isAway = false
  #closed = false

  constructor(options: AddressDiscoveryOptions, observer: DiscoveryObserver) {
    const { ttlMs, pollMs } = leaseOf(options.ttlMs, options.pollMs)
    this.#options = options
    this.#observer = observer
    this.#diff = new FleetDiff(observer)
    this.#renewals = new Renewals(ttlMs, performance.now())
    this.#pollMs = pollMs
  }

  get cards(): DiscoveryWatch['cards'] {
    return this.#diff.cards
  }

  async open(): Promise<void> {
    await this.#look()
    this.#lookLater()
  }

  close(): void {
    this.#closed = true
    if (this.#poll !== null) clearTimeout(this.#poll)
  }

  /** One look after the other: a slow one is not overtaken. */
  #lookLater(): void {
    if (this.#closed) return
    this.#poll = setTimeout(() => void this.#look().finally(() => this.#lookLater()), this.#pollMs)
    this.#poll.unref()
  }

  async #look(): Promise<void> {
    this.#looks += 1
    this.#renewals.look(performance.now())
    const addresses = await this.#addresses()
    if (addresses === null) return
    const named = new Map(addresses.map((address) => [nameOf(address), address]))
    const asking = [...named]
    const ask = async (): Promise<void> => {
      for (let next = asking.shift(); next !== undefined; next = asking.shift()) {
        await this.#ask(...next)
      }
    }
    await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask))
    if (this.#closed) return
    for (const name of this.#workerAt.keys()) if (!named.has(name)) this.#drop(name, 'closed')
  }

  async #addresses(): Promise<readonly HostPort[] | null> {
    try {
      const addresses = await this.#options.addresses()
      if (this.#isAway && !this.#closed) this.#observer.discoveryBack?.()
      this.#isAway = false
      return addresses
    } catch (thrown) {
      if (!this.#isAway && !this.#closed) {
        this.#observer.discoveryAway?.(BatonError.from(thrown).message)
      }
      this.#isAway = true
      return null
    }
  }

  async #ask(name: string, address: HostPort): Promise<void> {
    try {
      const told = await this.#options.fetchCard(address)
      if (this.#closed) return
      this.#faults.delete(name)
      if (told === null) this.#drop(name, 'closed')
      else this.#believe(name, { ...checkCard(told), ...address })
    } catch (thrown) {
      if (this.#closed) return
      if (!this.#renewals.holds(name, performance.now())) this.#drop(name, 'expired')
      const why = BatonError.from(thrown).message
      if (this.#faults.get(name) !== why) this.#observer.unreadable?.(name, why)
      this.#faults.set(name, why)
    }
  }

  /** Another worker at the address: the one of before is gone. */
  #believe(name: string, card: WorkerCard): void {
    const before = this.#workerAt.get(name)
    if (before !== undefined && before !== card.workerId) this.#drop(name, 'expired')
    this.#workerAt.set(name, card.workerId)
    this.#renewals.see(name, this.#looks, performance.now())
    this.#diff.seen(card)
  }

  #drop(name: string, reason: 'closed' | 'expired'): void {
    const workerId = this.#workerAt.get(name)
    if (workerId === undefined) return
    this.#workerAt.delete(name)
    this.#renewals.forget(name)
    this.#diff.gone(workerId, reason)
  }
}

function nameOf({ host, port }: HostPort): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
