/**
 * Decides when a request of a batch may start: only in capacity that no other request needs, so that
 * interactive requests never wait for a batch.
 *
 * Some slots of a model's decode batches stay free, the model's queues must be empty, and with separate prefill
 * workers one of them must be idle.
 */
import type { CancelSignal, Clock, Timer } from '../../base/index.ts'
import type { PoolStatus, RouterStatus } from '../../router/index.ts'

/** The load of a model's workers; undefined: the model is not known. */
type LoadOf = (model: string | undefined) => ModelLoad | undefined

export interface ModelLoad {
  /** Requests that its workers compute at the same time; Infinity: not known. */
  readonly places: number
  readonly status: Pick<RouterStatus, 'prefill' | 'decode' | 'disaggregation'>
}

interface Waiter {
  readonly model: string | undefined
  readonly go: () => void
}

/** One of this many slots stays free. */
const FREE_SHARE = 8
const LOOK_MS = 20

export class BatchGate {
  readonly #clock: Clock
  readonly #loadOf: LoadOf
  readonly #requestsMax: number
  readonly #waiters = new Set<Waiter>()
  readonly #inside = new Map<string, number>()
  #insideAll = 0
  #timer: Timer | null = null

  constructor(clock: Clock, loadOf: LoadOf, requestsMax: number) {
    this.#clock = clock
    this.#loadOf = loadOf
    this.#requestsMax = requestsMax
  }

  /** Returns false when `signal` was aborted first. After true `leave` must be called once. */
  async enter(model: string | undefined, signal: CancelSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#waiters.size === 0 && this.#isOpen(model)) {
      this.#count(model, 1)
      return true
    }
    return await new Promise((resolve) => {
      const waiter: Waiter = {
        model,
        go: () => {
          signal.removeEventListener('abort', onAbort)
          resolve(true)
        },
      }
      const onAbort = (): void => {
        signal.removeEventListener('abort', onAbort)
        this.#waiters.delete(waiter)
        resolve(false)
      }
      signal.addEventListener('abort', onAbort)
      this.#waiters.add(waiter)
      this.#lookLater()
    })
  }

  leave(model: string | undefined): void {
    this.#count(model, -1)
    this.#look()
  }

  #look(): void {
    for (const waiter of this.#waiters) {
      if (!this.#isOpen(waiter.model)) continue
      this.#waiters.delete(waiter)
      this.#count(waiter.model, 1)
      waiter.go()
    }
    this.#lookLater()
  }

  #lookLater(): void {
    if (this.#timer !== null || this.#waiters.size === 0) return
    this.#timer = this.#clock.after(LOOK_MS, () => {
      this.#timer = null
      this.#look()
    })
  }

  #isOpen(model: string | undefined): boolean {
    if (this.#insideAll >= this.#requestsMax) return false
    const load = this.#loadOf(model)
    return load === undefined || hasPlace(load, this.#inside.get(model ?? '') ?? 0)
  }

  #count(model: string | undefined, change: number): void {
    const name = model ?? ''
    this.#insideAll += change
    const count = (this.#inside.get(name) ?? 0) + change
    if (count === 0) this.#inside.delete(name)
    else this.#inside.set(name, count)
  }
}

/** `inside`: started requests of batches, some of which the router has booked already. */
export function hasPlace({ places, status }: ModelLoad, inside: number): boolean {
  const { prefill, decode, disaggregation } = status
  if (prefill.queuedRequests > 0 || decode.queuedRequests > 0) return false
  const running = Math.max(runningOf(decode) + runningOf(prefill), inside)
  const kept = places < 2 || !Number.isFinite(places) ? 0 : Math.ceil(places / FREE_SHARE)
  if (running >= places - kept) return false
  const isApart = disaggregation.state === 'active' && prefill.ranks.length > 0
  if (!isApart) return true
  const idle = prefill.ranks.filter((rank) => loadOfRank(rank) === 0).length
  // Requests that have started but are not booked yet will need a slot too.
  const unbooked = Math.max(inside - runningOf(decode) - runningOf(prefill), 0)
  return idle > unbooked
}

function runningOf({ ranks }: PoolStatus): number {
  return ranks.reduce((sum, rank) => sum + loadOfRank(rank), 0)
}

function loadOfRank(rank: PoolStatus['ranks'][number]): number {
  return Math.max(rank.activeRequests, rank.reportedRequests)
}
