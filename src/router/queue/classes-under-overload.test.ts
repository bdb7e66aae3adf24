import { describe, expect, it } from 'vitest'
import { flooded } from '../../../test/router/flooded-fleet.ts'
import { fleet } from '../../../test/router/small-fleet.ts'
import { completePolicyClasses } from '../configuration/policy-class.ts'
import { PolicyQueue } from './policy-queue.ts'
import { ALL_RANKS } from './rank-set.ts'

/** Without a threshold of their own these classes are queued only when the fleet is full. */
const CLASSES = [
  { name: 'default', quantum: 3000 },
  { name: 'batch', quantum: 1000 },
] as const

const config = { policyClasses: CLASSES }

describe('policy classes under overload', () => {
  it('a class within its share - loses nothing to a flood of another one', () => {
    const [flood, few] = flooded(
      [
        { policyClass: 'batch', perTick: 10, promptTokens: 100 },
        { policyClass: 'default', perTick: 0.6, promptTokens: 100 },
      ],
      { config },
    )
    expect(few?.sent).toBe(180)
    expect(few?.refused).toBeLessThanOrEqual(4)
    expect(few?.served).toBeGreaterThanOrEqual(172)
    // The flood gets the rest: no capacity is idle.
    expect((few?.served ?? 0) + (flood?.served ?? 0)).toBeGreaterThan(290)
  })

  it.each([
    ['equal prompts', 100, 100, 0.75],
    ['prompts of the batch class that are four times as long', 100, 400, 12 / 13],
  ])('two floods, %s - tokens as the quanta', (_, defaultTokens, batchTokens, expected) => {
    const [first, second] = flooded(
      [
        { policyClass: 'default', perTick: 10, promptTokens: defaultTokens },
        { policyClass: 'batch', perTick: 10, promptTokens: batchTokens },
      ],
      { config },
    )
    const part = (first?.served ?? 0) / ((first?.served ?? 0) + (second?.served ?? 0))
    expect(part).toBeGreaterThan(expected - 0.08)
    expect(part).toBeLessThan(expected + 0.08)
  })

  it('a queue that is full - gives up requests of the class that has most of its share', () => {
    const { send, pool } = fleet(1, { policyClasses: CLASSES, maxQueuedRequests: 4 })
    for (let i = 0; i < 3; i++) send()
    const batch = Array.from({ length: 4 }, () => send({ policyClass: 'batch' }))
    const first = Array.from({ length: 3 }, () => send())
    expect(pool().queuedRequests).toBe(4)
    expect(batch.filter(({ sink }) => sink.errors.length > 0)).toHaveLength(3)
    expect(first.filter(({ sink }) => sink.errors.length > 0)).toHaveLength(0)
    // One of four is the share of the batch class.
    expect(send().sink.errors).toHaveLength(1)
  })

  it('a deficit that lacks the last digit of the cost - the request is sent all the same', () => {
    const classes = completePolicyClasses(
      [
        { name: 'a', quantum: 427 },
        { name: 'b', quantum: 6748 },
      ],
      { queuePolicy: 'fcfs', queueThreshold: null },
    )
    const queue = new PolicyQueue(classes, 10)
    const add = (name: string, cost: number, isFree: boolean): void => {
      const times = { arrivedMs: 0, startByMs: 0, isLate: false }
      const order = { strictPriority: 0, priority: 0, tenant: '', tenantWeight: 1 }
      const tokens = { promptTokens: cost, cachedTokens: 0, cost, ranks: ALL_RANKS }
      const entry = { requestId: name, ...tokens, ...order, ...times, canGo: () => isFree }
      const ofClass = queue.classOf(name, () => cost)
      queue.add(ofClass, entry, { workers: 1, retryAfterMs: 1 })
    }
    add('a', 2928, true)
    add('b', 147, false)
    expect(queue.pop(true)?.requestId).toBe('a')
  })
})
