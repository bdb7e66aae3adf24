import { describe, expect, it } from 'vitest'
import { settle } from './settle.ts'

async function chain(length: number, done: () => void): Promise<void> {
  for (let i = 0; i < length; i++) await Promise.resolve()
  done()
}

describe('settle', () => {
  it('resolves after the longest chain of awaits, every time', async () => {
    for (let round = 0; round < 600; round++) {
      let isDone = false
      void chain(200, () => {
        isDone = true
      })
      await settle()
      expect(isDone).toBe(true)
    }
  })

  it('lets the event loop run - a real timer fires during a long simulation', async () => {
    let hasFired = false
    setTimeout(() => {
      hasFired = true
    }, 0)
    for (let round = 0; !hasFired && round < 1_000_000; round++) await settle()
    expect(hasFired).toBe(true)
  })
})
