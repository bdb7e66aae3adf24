/**
 * Decides at which address a worker is used, because several may lead to it: an IP address and a name, a direct one and
 * a proxy. The first stays in use while it can be reached. A worker of the same id that has started later has moved and
 * is used at its new address.
 */
import type { WorkerId } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import { startedMs } from './card-file.ts'

interface Place {
  /** Of the worker that was found there; null: none is known. */
  readonly card: WorkerCard | null
  /** It is connected to that worker. */
  readonly isUp: boolean
  /** Attempts in a row that have failed; the first one may have been the loss of a connection that can be replaced. */
  readonly failures: number
}

export class WorkerPlaces<P extends Place> {
  /** All places of each worker; the first is in use. */
  readonly #places = new Map<WorkerId, readonly P[]>()

  /** Workers that are known. */
  get size(): number {
    return this.#places.size
  }

  /** Undefined: the worker is at no place. */
  used(workerId: WorkerId): P | undefined {
    return this.#places.get(workerId)?.[0]
  }

  all(workerId: WorkerId): readonly P[] {
    return this.#places.get(workerId) ?? []
  }

  /** One card per worker: that of the place in use. */
  cards(): WorkerCard[] {
    return [...this.#places.values()].flatMap(([used]) => used?.card ?? [])
  }

  /** Call after the card of a place or the number of its failures has changed. */
  review(workerId: WorkerId, changed: P): void {
    const known = this.all(workerId)
    const others = known.filter((place) => place !== changed)
    const isThere = changed.card?.workerId === workerId
    // A known place keeps its position: of two that are equally good the first stays in use.
    const all = !isThere ? others : known.includes(changed) ? known : [...others, changed]
    if (all.length === 0) {
      this.#places.delete(workerId)
      return
    }
    const best = all.reduce((used, place) => (isBetter(place, used) ? place : used))
    this.#places.set(workerId, [best, ...all.filter((place) => place !== best)])
  }
}

export function isReachable({ failures }: Place): boolean {
  return failures < 2
}

/** A place that is not connected replaces no other: a worker that was lost at all its places stays at the last one. */
function isBetter(place: Place, used: Place): boolean {
  return place.isUp && (!isReachable(used) || startMsAt(place) > startMsAt(used))
}

function startMsAt({ card }: Place): number {
  return card === null ? 0 : startedMs(card)
}
