import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SimSequence } from './sim-sequence.ts'
import { WaitingQueue } from './waiting-queue.ts'

function sequenceOf(owner: object): SimSequence<object> {
  return new SimSequence({
    owner,
    promptTokens: 1,
    promptHashes: new Uint32Array(0),
    outputTokens: 1,
  })
}

async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  // The target of a dereferenced WeakRef stays alive until the end of the turn.
  await new Promise(setImmediate)
  ;(runInNewContext('gc') as () => void)()
}

describe('WaitingQueue', () => {
  it('shift - removed requests can be collected: few more are kept than are waiting', async () => {
    const queue = new WaitingQueue<object>()
    const seen: WeakRef<object>[] = []
    const fill = (): void => {
      for (let i = 0; i < 500; i++) {
        const owner = {}
        seen.push(new WeakRef(owner))
        queue.push(sequenceOf(owner))
      }
    }
    const held = async (): Promise<number> => {
      await collectGarbage()
      return seen.filter((ref) => ref.deref() !== undefined).length
    }
    fill()
    expect(await held()).toBe(500)
    for (let i = 0; i < 400; i++) queue.shift()
    expect(queue.length).toBe(100)
    expect(await held()).toBeLessThanOrEqual(200)
    for (let i = 0; i < 95; i++) queue.shift()
    expect(await held()).toBeLessThanOrEqual(5 + 32)
    for (let i = 0; i < 5; i++) queue.shift()
    expect([queue.length, await held()]).toEqual([0, 0])
  })

  it('any order of pushes, shifts and returns to the front - behaves like a list', () => {
    const step = fc.constantFrom('push', 'push', 'shift', 'shift', 'pushFront')
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new WaitingQueue<object>()
        const list: SimSequence<object>[] = []
        for (const kind of steps) {
          const sequence = sequenceOf({})
          if (kind === 'push') {
            queue.push(sequence)
            list.push(sequence)
          } else if (kind === 'pushFront') {
            queue.pushFront(sequence)
            list.unshift(sequence)
          } else if (list.length > 0) {
            queue.shift()
            list.shift()
          }
          expect(queue.length).toBe(list.length)
          expect(queue.first).toBe(list[0])
        }
        expect([...queue]).toEqual(list)
      }),
    )
  })
})
