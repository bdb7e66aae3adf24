import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import { MemoryStateStore } from './state-store.ts'

describe('MemoryStateStore', () => {
  it('entries are kept for their time, which each write restarts; beyond the limit the oldest are dropped', async () => {
    const clock = new VirtualClock()
    const store = new MemoryStateStore({ clock, ttlMs: 1000, bytesMax: 100 })
    store.set('a', 'one')
    await clock.run(clock.nowMs() + 600)
    store.set('b', 'two')
    store.set('a', 'three')
    await clock.run(clock.nowMs() + 600)
    expect([store.get('a'), store.get('b')]).toEqual(['three', 'two'])
    await clock.run(clock.nowMs() + 400)
    expect([store.get('a'), store.get('b')]).toEqual([undefined, undefined])
    store.set('a', 'x'.repeat(20))
    store.set('b', 'x'.repeat(20))
    store.set('c', 'x'.repeat(20))
    expect([store.get('a'), store.get('b')?.length, store.get('c')?.length]).toEqual([
      undefined,
      20,
      20,
    ])
    store.set('d', 'x'.repeat(50))
    expect(store.get('d')).toBeUndefined()
    expect([store.delete('c'), store.delete('c')]).toEqual([false, false])
  })
})
