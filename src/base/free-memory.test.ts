import { describe, expect, it } from 'vitest'
import { freeMemory, freeOwned, ownMemory } from './free-memory.ts'

const LARGE = 400 * 1024

describe('freeOwned', () => {
  it('owned memory - is freed, and arrays that refer to it are empty', () => {
    const bytes = new Uint8Array(LARGE)
    const view = bytes.subarray(7)
    ownMemory(bytes.buffer)
    freeOwned(view.buffer)
    expect([bytes.length, view.length, view[0]]).toEqual([0, 0, undefined])
    freeOwned(bytes.buffer)
  })

  it('memory of others, and small memory - stay as they are', () => {
    const small = new ArrayBuffer(8192)
    ownMemory(small)
    const shared = new SharedArrayBuffer(LARGE)
    const others = new ArrayBuffer(LARGE)
    for (const memory of [small, shared, others]) freeOwned(memory)
    expect([small.byteLength, shared.byteLength, others.byteLength]).toEqual([8192, LARGE, LARGE])
  })
})

it('freeMemory, a thousand times - does not wait for the garbage collector', () => {
  const before = process.memoryUsage().arrayBuffers
  for (let i = 0; i < 1000; i++) freeMemory(new ArrayBuffer(LARGE))
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10 * LARGE)
})
