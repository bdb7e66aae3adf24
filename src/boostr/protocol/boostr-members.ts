/**
 * The workers of a router that are connected, that were lost a moment ago, and that are gone.
 *
 * Requests wait for original peers anyway, because these handle one at a time. There a worker that is lost therefore
 * counts as busy at first, so that a connection that is opened anew ends only the request on it.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { REJOIN_MS } from './boostr-link.ts'
import type { BoostrPeers } from './boostr-link.ts'

export interface BoostrMembersOptions {
  readonly peers: BoostrPeers
  readonly clock: Clock
  /** Called when a worker that was lost has not connected again in time. */
  readonly onGone: () => void
}

export class BoostrMembers {
  readonly #options: BoostrMembersOptions
  readonly #gone = new Set<number>()
  readonly #rejoining = new Map<number, Timer>()
  #isClosed = false

  constructor(options: BoostrMembersOptions) {
    this.#options = options
  }

  isGone(rank: number): boolean {
    return this.#gone.has(rank)
  }

  isConnected(rank: number): boolean {
    return !this.#gone.has(rank) && !this.#rejoining.has(rank)
  }

  lost(rank: number): void {
    const { peers, clock, onGone } = this.#options
    if (peers === 'baton' || this.#isClosed) {
      this.#gone.add(rank)
    } else if (this.isConnected(rank)) {
      const timer = clock.after(REJOIN_MS, () => {
        this.#rejoining.delete(rank)
        this.#gone.add(rank)
        onGone()
      })
      this.#rejoining.set(rank, timer)
    }
  }

  back(rank: number): void {
    this.#gone.delete(rank)
    this.#rejoining.get(rank)?.cancel()
    this.#rejoining.delete(rank)
  }

  /** The connections end after this, and nothing waits for them any more. */
  close(): void {
    this.#isClosed = true
    for (const timer of this.#rejoining.values()) timer.cancel()
    this.#rejoining.clear()
  }
}
