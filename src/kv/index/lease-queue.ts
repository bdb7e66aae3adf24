/**
 * A FIFO of leases: which prompt was sent to which holder, and until when it counts.
 *
 * A lease is in two queues, its holder's and the global one, and may end through either. Both queues are told, skip
 * ended leases, and compact themselves when most of their leases have ended.
 */
import type { HeldPrefixNode } from './held-prefix-tree.ts'

export interface Lease {
  readonly holder: number
  readonly expiresMs: number
  /** The end of the prompt in the tree; null once the lease has ended. */
  node: HeldPrefixNode | null
}

const SMALL = 16

export class LeaseQueue {
  #leases: Lease[] = []
  #first = 0
  #over = 0

  /** Number of leases in the queue, including ended ones. */
  get length(): number {
    return this.#leases.length
  }

  push(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** The oldest lease that has not ended, or null. */
  oldest(): Lease | null {
    while (this.#leases[this.#first]?.node === null) this.#first += 1
    return this.#leases[this.#first] ?? null
  }

  /** One of the leases has ended; its `node` is already null. */
  ended(): void {
    this.#over += 1
    if (this.#leases.length < SMALL || 2 * this.#over <= this.#leases.length) return
    this.#leases = this.#leases.filter(({ node }) => node !== null)
    this.#first = 0
    this.#over = 0
  }
}
