/**
 * Discovery by addresses: something else knows where workers are (a list, Kubernetes). A connection to each worker
 * is kept, over which it sends its card and every change. Workers register nowhere; a fleet without changes costs
 * nothing but the heartbeats of its connections.
 */
import { addressText, BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import { checkCard, isSameWorker, startedMs } from './card-file.ts'
import type { HostPort } from './host-port.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch, LeaveReason } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'
import { leaseOf } from './lease.ts'
import { Renewals } from './renewals.ts'
import { isReachable, WorkerPlaces } from './worker-places.ts'

/** What a connection to a worker reports. */
export interface FollowListener {
  /** The card, unchecked; null: the worker accepts no requests now. */
  onCard(card: unknown): void
  /** Called once, and nothing afterwards: the worker cannot be reached, or was lost. */
  onLost(reason: unknown): void
}

export interface AddressDiscoveryOptions {
  /** Called at every poll. When it rejects, discovery counts as unavailable. */
  readonly addresses: () => Promise<readonly HostPort[]>
  /** Reports the worker's card now and at every change, until it is closed or the worker is lost. */
  readonly follow: (address: HostPort, listener: FollowListener) => { close(): void }
  /** Called before a watch: throws `config.invalid` where there can never be any addresses. */
  readonly refuse?: () => void
  /** Called when the addresses are not needed any more. */
  readonly onClose?: () => void
  /** A worker that could not be reached for this time has left. */
  readonly ttlMs?: number
  readonly pollMs?: number
}

const DIALLED_AT_ONCE = 128
/**
 * The first cards are collected for this time, at most until every address has answered. They are reported oldest
 * worker first, because of workers that differ the first one decides, and it must be the same in every frontend.
 */
const GATHER_MS = 500
/**
 * Once a worker is known, addresses that are silent are not waited for any more when no other has answered for this
 * time: a host that is off must not delay the start until its connection times out.
 */
const QUIET_MS = 500
/** The largest pause, in polls, between attempts to reach an unknown worker. */
const LOOKS_BETWEEN_MAX = 8

export class AddressDiscovery implements Discovery {
  readonly #options: AddressDiscoveryOptions
  readonly #watches = new Set<AddressWatch>()

  constructor(options: AddressDiscoveryOptions) {
    this.#options = options
  }

  /** Nothing to do: frontends get the card from the worker itself. */
  register(_card: WorkerCard): Promise<Registration> {
    return Promise.resolve({ update: () => Promise.resolve(), close: () => Promise.resolve() })
  }

  async watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    this.#options.refuse?.()
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

/** One address, whatever worker is there. */
interface Place {
  readonly name: string
  readonly address: HostPort
  /** Ends the connection or the attempt; null: there is none. */
  stop: (() => void) | null
  /** A card, or its absence, was received over this connection. */
  isUp: boolean
  card: WorkerCard | null
  /** The address at which its worker is used instead, as was reported; null: this one. */
  usedInstead: string | null
  fault: string | null
  failures: number
  /** The next attempt is made at this poll. */
  dueAtLook: number
  isQueued: boolean
}

class AddressWatch implements DiscoveryWatch {
  readonly #options: AddressDiscoveryOptions
  readonly #observer: DiscoveryObserver
  readonly #diff: FleetDiff
  readonly #renewals: Renewals
  readonly #pollMs: number
  readonly #places = new Map<string, Place>()
  readonly #workers = new WorkerPlaces<Place>()
  readonly #queue: Place[] = []
  /** The first cards are collected and not reported yet. */
  #isGathering = true
  #dialling = 0
  #whenOpen: (() => void) | null = null
  #quiet: NodeJS.Timeout | null = null
  /** Attempts to connect that have succeeded or failed. */
  #answers = 0
  #poll: NodeJS.Timeout | null = null
  #looks = 0
  #marks = 0
  /** Why the addresses are unavailable; null: they are not. */
  #away: string | null = null
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

  /** Resolves when every address has answered or failed, or when some have and the others are silent. */
  async open(): Promise<void> {
    await this.#look()
    await new Promise<void>((resolve) => {
      this.#whenOpen = resolve
      this.#dial()
      this.#awaitQuiet()
    })
    this.#whenOpen = null
    if (this.#quiet !== null) clearTimeout(this.#quiet)
    this.#tellGathered()
    this.#lookLater()
  }

  close(): void {
    this.#closed = true
    if (this.#poll !== null) clearTimeout(this.#poll)
    for (const place of this.#places.values()) place.stop?.()
    this.#whenOpen?.()
  }

  /** Polls do not overlap: the next starts after a slow one has ended. */
  #lookLater(): void {
    if (this.#closed) return
    this.#poll = setTimeout(() => void this.#look().finally(() => this.#lookLater()), this.#pollMs)
    this.#poll.unref()
  }

  async #look(): Promise<void> {
    this.#looks += 1
    this.#renewals.look(performance.now())
    const addresses = await this.#addresses()
    if (this.#closed) return
    if (addresses !== null) this.#list(addresses)
    // The known ones also while nothing lists them: a worker that has restarted where it was is there again.
    for (const place of this.#places.values()) {
      if (place.stop !== null || place.isQueued || place.dueAtLook > this.#looks) continue
      place.isQueued = true
      this.#queue.push(place)
    }
    this.#dial()
  }

  #list(addresses: readonly HostPort[]): void {
    const named = new Map(addresses.map((address) => [nameOf(address), address]))
    this.#forget([...this.#places.values()].filter(({ name }) => !named.has(name)))
    for (const [name, address] of named) {
      if (!this.#places.has(name)) this.#places.set(name, newPlace(name, address))
    }
  }

  /** Null: they are unknown at the moment. */
  async #addresses(): Promise<readonly HostPort[] | null> {
    let why: string | null = null
    const addresses = await this.#options.addresses().catch((thrown: unknown) => {
      why = BatonError.from(thrown).message
      return null
    })
    if (!this.#closed) this.#tellAway(why)
    return addresses
  }

  /** Reported once per reason in a row: the cause may change while the source is unavailable. */
  #tellAway(why: string | null): void {
    if (why === this.#away) return
    this.#away = why
    if (why === null) this.#observer.discoveryBack?.()
    else this.#observer.discoveryAway?.(why)
  }

  /**
   * Removes all before any other attempt starts, because the end of one attempt lets the next start, which must not
   * be for a removed address.
   */
  #forget(gone: readonly Place[]): void {
    for (const place of gone) {
      this.#places.delete(place.name)
      // No worker is used there instead.
      place.failures = Infinity
    }
    for (const place of gone) {
      place.stop?.()
      this.#tellFault(place, null)
      this.#drop(place, 'closed')
      this.#renewals.forget(place.name)
    }
  }

  #dial(): void {
    while (this.#dialling < DIALLED_AT_ONCE && !this.#closed) {
      const place = this.#queue.shift()
      if (place === undefined) break
      place.isQueued = false
      if (this.#places.get(place.name) === place) this.#follow(place)
    }
    if (this.#dialling === 0 && this.#queue.length === 0) this.#whenOpen?.()
  }

  /** Starts to measure how long no address has answered, until the watch is open. */
  #awaitQuiet(): void {
    if (this.#whenOpen === null) return
    if (this.#quiet !== null) clearTimeout(this.#quiet)
    const before = this.#answers
    this.#quiet = setTimeout(() => {
      // Answers that have arrived during a long turn of the event loop are read first.
      setImmediate(() => {
        if (this.#workers.size > 0 && this.#answers === before) this.#whenOpen?.()
      })
    }, QUIET_MS)
  }

  #follow(place: Place): void {
    let isDialling = true
    let isOver = false
    let link: { close(): void } | null = null
    const answered = (): void => {
      if (!isDialling) return
      isDialling = false
      this.#dialling -= 1
      this.#answers += 1
      this.#dial()
      this.#awaitQuiet()
    }
    const stop = (): void => {
      if (isOver) return
      isOver = true
      place.stop = null
      link?.close()
      answered()
    }
    const lose = (reason: unknown): void => {
      if (isOver) return
      stop()
      this.#onLost(place, reason)
    }
    this.#dialling += 1
    place.stop = stop
    link = this.#options.follow(place.address, {
      onCard: (told) => {
        if (isOver) return
        try {
          this.#believe(place, told)
          answered()
        } catch (thrown) {
          lose(thrown)
        }
      },
      onLost: lose,
    })
    if (isOver) link.close()
  }

  /** If another worker has the address now, the previous one has left. Throws for an invalid card. */
  #believe(place: Place, told: unknown): void {
    const card = told === null ? null : { ...checkCard(told), ...place.address }
    place.isUp = true
    place.failures = 0
    this.#tellFault(place, null)
    if (card === null) return this.#drain(place)
    if (place.card?.workerId !== card.workerId) this.#drop(place, 'replaced')
    place.card = card
    if (this.#isGathering && this.#workers.size === 0) {
      setTimeout(() => this.#tellGathered(), GATHER_MS).unref()
    }
    this.#review(card.workerId, place)
  }

  #tellGathered(): void {
    if (!this.#isGathering || this.#closed) return
    this.#isGathering = false
    const cards = this.#workers.cards()
    for (const card of cards.toSorted((left, right) => startedMs(left) - startedMs(right))) {
      this.#tellUsed(card.workerId)
    }
  }

  #review(workerId: WorkerId, changed: Place): void {
    this.#workers.review(workerId, changed)
    if (!this.#isGathering) this.#tellUsed(workerId)
  }

  /** Reports a worker's card with the address at which it is used, and each other address once. */
  #tellUsed(workerId: WorkerId): void {
    const [used, ...others] = this.#workers.all(workerId)
    if (used === undefined || used.card === null) return
    this.#diff.seen(used.card)
    used.usedInstead = null
    for (const place of others) {
      if (place.usedInstead !== used.name) this.#observer.alsoAt?.(workerId, place.name, used.name)
      place.usedInstead = used.name
    }
  }

  /** Its time to live starts when the connection is lost; until then the connection shows that it is alive. */
  #onLost(place: Place, reason: unknown): void {
    const nowMs = performance.now()
    if (place.isUp) this.#renewals.see(place.name, ++this.#marks, nowMs)
    else this.#tellFault(place, BatonError.from(reason).message)
    if (!this.#renewals.holds(place.name, nowMs)) this.#drop(place, 'expired')
    place.isUp = false
    place.failures += 1
    if (place.card !== null) this.#review(place.card.workerId, place)
    const looks = place.card === null ? 2 ** (place.failures - 1) : 1
    place.dueAtLook = this.#looks + Math.min(LOOKS_BETWEEN_MAX, looks)
  }

  /** Reported once per reason; the loss of an established connection is not reported yet. */
  #tellFault(place: Place, why: string | null): void {
    if (place.fault !== why) this.#observer.unanswered?.(place.name, why)
    place.fault = why
  }

  /** The worker itself says that it accepts no requests: it has left, wherever else it was found. */
  #drain(place: Place): void {
    const { card } = place
    if (card === null) return
    for (const other of this.#workers.all(card.workerId)) {
      if (other === place || other.card === null || !isSameWorker(other.card, card)) continue
      other.card = null
      this.#workers.review(card.workerId, other)
    }
    this.#drop(place, 'closed')
  }

  /** No worker is at this place any more. It has left only if it cannot be reached at another one. */
  #drop(place: Place, reason: LeaveReason): void {
    const { card } = place
    if (card === null) return
    place.card = null
    place.usedInstead = null
    this.#workers.review(card.workerId, place)
    const used = this.#workers.used(card.workerId)
    if (used === undefined) this.#diff.gone(card.workerId, reason)
    else if (!isReachable(used)) this.#drop(used, reason)
    else if (!this.#isGathering) this.#tellUsed(card.workerId)
  }
}

function newPlace(name: string, address: HostPort): Place {
  return {
    name,
    address,
    stop: null,
    isUp: false,
    card: null,
    usedInstead: null,
    fault: null,
    failures: 0,
    dueAtLook: 0,
    isQueued: false,
  }
}

function nameOf({ host, port }: HostPort): string {
  return addressText(host, port)
}
