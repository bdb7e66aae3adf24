import { describe, expect, it } from 'vitest'
import { HeldPrefixNode } from './held-prefix-tree.ts'
import { LeaseQueue } from './lease-queue.ts'
import type { Lease } from './lease-queue.ts'

const lease = (holder: number): Lease => ({
  holder,
  expiresMs: holder,
  node: new HeldPrefixNode(null, Uint32Array.of(1, 2)),
})

describe('LeaseQueue', () => {
  it('order - returns the oldest lease that has not ended', () => {
    const queue = new LeaseQueue()
    const leases = Array.from({ length: 100 }, (_, i) => lease(i))
    for (const one of leases) queue.push(one)
    const end = (i: number): void => {
      leases[i]!.node = null
      queue.ended()
    }
    for (let i = 50; i < 100; i++) end(i)
    expect(queue.oldest()?.holder).toBe(0)
    for (let i = 0; i < 49; i++) end(i)
    expect(queue.oldest()?.holder).toBe(49)
    end(49)
    expect(queue.oldest()).toBeNull()
    queue.push(lease(7))
    expect(queue.oldest()?.holder).toBe(7)
  })

  it('memory - ended leases are dropped although the oldest lives on', () => {
    const queue = new LeaseQueue()
    queue.push(lease(0))
    for (let i = 1; i < 1000; i++) {
      const one = lease(i)
      queue.push(one)
      one.node = null
      queue.ended()
    }
    expect(queue.oldest()?.holder).toBe(0)
    expect(queue.length).toBeLessThanOrEqual(16)
  })
})
