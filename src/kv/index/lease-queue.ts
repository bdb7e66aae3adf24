/**
 * Leases on prefixes, oldest first: who was sent which prompt, until when it counts.
 *
 * A lease stands in two queues, its holder's and everybody's, and may end in either order: both are reported, step over it,
 * and let go of what is over once that is the greater part.
 */
import type { HeldPrefixNode } from './held-prefix-tree.ts'

export interface Lease {
  readonly holder: number
  readonly expiresMs: number
  /** Where the prompt ends; null once the lease is over. */
  node: HeldPrefixNode | null
}

const SMALL = 16

export class LeaseQueue {
  #leases: Lease[] = []
  #first = 0
  #over = 0

  /** Leases that are kept, those that are over too. */
  get length(): number {
    return this.#leases.length
  }

  push(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** The oldest that is not over, or null. */
  oldest(): Lease | null {
    while (this.#leases[this.#first]?.node === null) this.#first += 1
    return this.#leases[this.#first] ?? null
  }

  /** One of the leases is over; its node is gone already. */
  ended(): void {
    this.#over += 1
    if (this.#leases.length < SMALL || 2 * this.#over <= this.#leases.length) return
    this.#leases = this.#leases.filter(({ node }) => node !== null)
    this.#first = 0
    this.#over = 0
  }
}
