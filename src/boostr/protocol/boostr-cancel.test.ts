import { describe, expect, it } from 'vitest'

import { randomInt } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'
import { singleNode } from '../../../test/wire/boostr-toy.ts'
import type { BoostrRouter } from './boostr-router.ts'

const SEED = Date.now() % 1e9

/** One length: a prompt that is paired with another's descriptor is not noticed by its length. */
function askOne(random: Random, router: BoostrRouter) {
  const prompt = Array.from({ length: 5 }, () => BigInt(randomInt(random, 1_000)))
  return { prompt, ...ask(router, prompt) }
}

describe.each(['baton', 'boostr'] as const)('%s peers', (peers) => {
  it(`a client that leaves at any message - every other one gets its own answer, seed ${SEED}`, () => {
    for (let at = 1; at < 60; at++) {
      const fleet = new Fleet(SEED + at)
      const nodes = build(fleet, { routers: 1, prefill: 2, decode: 2, peers })
      const asked = Array.from({ length: 5 }, () => askOne(fleet.random, nodes.routers[0]!))
      const leaving = asked[at % asked.length]!
      let count = 0
      let before: unknown
      const seen = () => [leaving.reply.tokens.length, ...leaving.reply.ends]
      fleet.onSend = () => {
        count += 1
        if (count !== at) return true
        leaving.handle.cancel()
        before = seen()
        return true
      }
      fleet.run()
      // The exchange may have fewer messages.
      if (count >= at) expect(seen()).toEqual(before)
      for (const { prompt, reply } of asked) {
        if (reply === leaving.reply) continue
        const all = [reply.ends, reply.tokens]
        expect(all, `seed ${SEED + at}`).toEqual([['done'], singleNode(prompt, 12)])
      }
      expect(isIdle(nodes)).toBe(true)
    }
  })
})

describe('original peers that do not answer in time', () => {
  it.each([10, 30, 31, 33, 34])(
    'tag %i is lost - at most one more request ends with an error, at once',
    (tag) => {
      const fleet = new Fleet(SEED + tag)
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, peers: 'boostr' })
      let isLost = false
      fleet.onSend = (_from, _to, frame) => {
        const isVictim = frame.tag === tag && !isLost
        isLost ||= isVictim
        return !isVictim
      }
      const [lost, next, ...others] = Array.from({ length: 4 }, () =>
        askOne(fleet.random, nodes.routers[0]!),
      )
      fleet.run()
      expect(lost?.reply.ends).toEqual([
        tag === 33 ? 'kv.transfer_failed' : 'request.deadline_exceeded',
      ])
      // The KV of the first may be left, and then the decode worker refuses the next at once.
      const isRefused = tag !== 10 && tag !== 30
      expect(next?.reply.ends).toEqual([isRefused ? 'backend.worker_unavailable' : 'done'])
      for (const { prompt, reply } of others) {
        expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode(prompt, 12)])
      }
      expect(isIdle(nodes)).toBe(true)
    },
  )
})

describe('Baton peers', () => {
  /** A prompt with a long answer. */
  const long = Array.from({ length: 1_000 }, (_, i) => [BigInt(i), 7n]).find(
    (prompt) => singleNode(prompt, 60).length === 60,
  )!

  it('a client that leaves at any message - its sequence stops and its KV is dropped at once', () => {
    // The prompt needs up to 20 ms, a message up to 10 ms, and the answer 300 ms.
    for (let leftAtMs = 1; leftAtMs < 200; leftAtMs += 3) {
      const fleet = new Fleet(SEED + leftAtMs)
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
      const { reply, handle } = ask(nodes.routers[0]!, long, 1_000_000)
      fleet.clock.after(leftAtMs, () => handle.cancel())
      fleet.run(leftAtMs + 90)
      expect(reply.ends).toEqual([])
      expect(isIdle(nodes), `seed ${SEED + leftAtMs}`).toBe(true)
    }
  })

  it('a request that ends with a deadline - its KV is dropped', () => {
    const fleet = new Fleet(SEED)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    fleet.onSend = (_from, _to, { tag }) => tag !== 31
    const { reply } = ask(nodes.routers[0]!, long)
    fleet.run(1_990)
    expect([nodes.decode[0]!.load, reply.ends]).toEqual([1, []])
    fleet.run(2_020)
    expect([nodes.decode[0]!.load, reply.ends]).toEqual([0, ['request.deadline_exceeded']])
  })

  it('KV that is being sent when its client leaves - is dropped when it has arrived', () => {
    const fleet = new Fleet(SEED)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    fleet.extraDelayMs = (_from, _to, { tag }) => (tag === 32 ? 100 : 0)
    const { handle } = ask(nodes.routers[0]!, long)
    fleet.clock.after(60, () => {
      handle.cancel()
      fleet.kill(0)
    })
    fleet.run(320)
    expect(nodes.decode[0]!.load).toBe(0)
    expect(fleet.sent.filter(({ to, tag }) => to === 200 && tag === 32)).toHaveLength(2)
  })
})
