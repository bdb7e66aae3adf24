import { describe, expect, it } from 'vitest'

import { randomInt } from '../../base/index.ts'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'
import { singleNode } from '../../../test/wire/boostr-toy.ts'
import { REJOIN_MS } from './boostr-link.ts'
import type { BoostrFrame } from './boostr-message.ts'
import { KvLane } from './kv-lane.ts'

const SEED = Date.now() % 1e9
/** The deadline for an acknowledgement in the fleet. */
const ACK_MS = 500

describe('acknowledgements of KV after their deadline', () => {
  it.each(['baton', 'boostr'] as const)(
    `%s peers - nobody gets the answer to another's prompt, seed ${SEED}`,
    (peers) => {
      for (let round = 0; round < 20; round++) {
        const fleet = new Fleet(SEED + round)
        const { random, clock } = fleet
        const topology = { prefill: 1 + randomInt(random, 2), decode: 1 + randomInt(random, 2) }
        const nodes = build(fleet, { routers: 1, ...topology, peers })
        const [router] = nodes.routers
        const lateTag = random.next() < 0.5 ? 32 : 33
        const lateMs = ACK_MS / 2 + randomInt(random, ACK_MS)
        const [from, until] = [randomInt(random, 200), 200 + randomInt(random, 2_000)]
        fleet.extraDelayMs = (_from, _to, { tag }) => {
          const isLate = clock.nowMs() >= from && clock.nowMs() < until
          return tag === lateTag && isLate ? lateMs : 0
        }
        // One length: a prompt that is paired with another's descriptor is not noticed by its length.
        const askOne = () => {
          const prompt = Array.from({ length: 5 }, () => BigInt(randomInt(random, 1_000)))
          return { prompt, ...ask(router!, prompt) }
        }
        const asked = Array.from({ length: 4 }, askOne)
        for (let i = 1; i <= 40; i++) clock.after(i * 60, () => void asked.push(askOne()))
        fleet.run()
        asked.push(askOne())
        fleet.run()
        for (const { prompt, reply } of asked) {
          expect(reply.ends.length, `seed ${SEED + round}`).toBe(1)
          if (reply.ends[0] !== 'done') continue
          expect(reply.tokens, `seed ${SEED + round}`).toEqual(singleNode(prompt, 12))
        }
        expect(asked.at(-1)?.reply.ends, `seed ${SEED + round}`).toEqual(['done'])
        expect(isIdle(nodes)).toBe(true)
      }
    },
  )

  it('one of many - only its own request ends with an error', () => {
    const fleet = new Fleet(SEED)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    let count = 0
    fleet.extraDelayMs = (_from, _to, { tag }) => (tag === 32 && (count += 1) === 1 ? 700 : 0)
    const replies = [1n, 2n, 3n, 4n].map((token) => ask(nodes.routers[0]!, [token, 9n]).reply)
    fleet.run()
    const ends = replies.map((reply) => reply.ends[0]).sort()
    expect(ends).toEqual(['done', 'done', 'done', 'kv.transfer_failed'])
    expect(isIdle(nodes)).toBe(true)
  })
})

describe('KvLane', () => {
  function start() {
    const clock = new ManualClock()
    const sent: number[] = []
    const ends: [string, number][] = []
    let resetCount = 0
    const lane = new KvLane<{ readonly name: string; readonly payload: Uint8Array }>({
      decodeRank: 200,
      link: {
        send: (_, { payload }: BoostrFrame) => sent.push(payload.length),
        reset: () => (resetCount += 1),
      },
      clock,
      ackMs: 100,
      onEnd: ({ name }, kvBytes) => ends.push([name, kvBytes]),
    })
    const push = (name: string, length: number): void =>
      lane.push({ name, payload: new Uint8Array(length) })
    return { lane, clock, sent, ends, push, resetCount: () => resetCount }
  }

  it('overdue - what waits is sent when the connection is open again', () => {
    const { lane, clock, sent, ends, push, resetCount } = start()
    push('a', 1)
    push('b', 2)
    clock.advance(100)
    expect([resetCount(), ends, sent]).toEqual([1, [['a', 0]], [8, 1]])
    lane.peerGone()
    lane.peerBack()
    lane.onAck()
    expect([ends, sent]).toEqual([
      [
        ['a', 0],
        ['b', 2],
      ],
      [8, 1, 8, 2],
    ])
  })

  it('overdue, and the connection does not come back - what waits ends', () => {
    const { clock, ends, push } = start()
    push('a', 1)
    push('b', 2)
    clock.advance(100)
    clock.advance(REJOIN_MS)
    push('c', 3)
    expect(ends).toEqual([
      ['a', 0],
      ['b', 0],
      ['c', 0],
    ])
  })

  it('an acknowledgement of nothing - is refused, so that it does not count for the next payload', () => {
    const { lane } = start()
    expect(() => lane.onAck()).toThrow(/was not sent/)
  })
})
