import { describe, expect, it } from 'vitest'
import { KvBlockStore } from '../engine/index.ts'
import { SpareMemory } from './spare-memory.ts'

const BLOCK_BYTES = 1024 * 1024

function createStore() {
  let created = 0
  const spare: { memory?: SpareMemory } = {}
  const store = new KvBlockStore({
    fingerprint: 'f',
    blockTokens: 16,
    bytesPerToken: BLOCK_BYTES / 16,
    capacityBytes: 4 * BLOCK_BYTES,
    createMemory: (length) => {
      created++
      return new Uint8Array(length)
    },
    onSpareTaken: () => spare.memory?.fillSoon(),
  })
  const memory = new SpareMemory(store)
  spare.memory = memory
  return { store, memory, created: () => created }
}

describe('SpareMemory', () => {
  it('fill - all that the store has room for; used memory is prepared again later', async () => {
    const { store, memory, created } = createStore()
    memory.fill()
    expect(created()).toBe(4)
    store.allocate(BLOCK_BYTES)
    store.allocate(BLOCK_BYTES)
    // Not while it is in use.
    expect(created()).toBe(4)
    await expect.poll(created).toBe(6)
    memory.close()
  })

  it('close - memory that is in use then is not prepared again', async () => {
    const [closed, open] = [createStore(), createStore()]
    for (const { memory } of [closed, open]) memory.fill()
    closed.store.allocate(BLOCK_BYTES)
    closed.memory.close()
    closed.store.allocate(BLOCK_BYTES)
    open.store.allocate(BLOCK_BYTES)
    // Both would be prepared after the same delay, the closed one first.
    await expect.poll(open.created).toBe(5)
    expect(closed.created()).toBe(4)
    open.memory.close()
  })
})
