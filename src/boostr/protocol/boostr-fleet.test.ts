import { describe, expect, it } from 'vitest'
import { randomInt } from '../../base/index.ts'
import { encodeBoostr } from './boostr-message.ts'
import { BoostrPrefillWorker } from './boostr-prefill-worker.ts'
import { createDisaggConfig } from './disagg-config.ts'
import { singleNode } from '../../../test/wire/boostr-toy.ts'
import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'

const SEED = Date.now() % 1e9

describe('boostr dialect', () => {
  for (const peers of ['baton', 'boostr'] as const) {
    it(`many routers × prefill × decode (${peers} peers) - answers as a single node, seed ${SEED}`, () => {
      for (let round = 0; round < 12; round++) {
        const fleet = new Fleet(SEED + round)
        const { random } = fleet
        // Original peers pair KV by order, so they have one router.
        const routers = peers === 'baton' ? 1 + randomInt(random, 3) : 1
        const topology = { routers, prefill: 1 + randomInt(random, 3), peers }
        const nodes = build(fleet, { ...topology, decode: 1 + randomInt(random, 3) })
        const asked = Array.from({ length: 30 }, () => {
          const prompt = Array.from({ length: randomInt(random, 20) }, () =>
            BigInt(randomInt(random, 50)),
          )
          const maxNewTokens = randomInt(random, 15)
          const router = nodes.routers[randomInt(random, routers)]!
          return { prompt, maxNewTokens, ...ask(router, prompt, maxNewTokens) }
        })
        fleet.run()
        for (const { prompt, maxNewTokens, reply } of asked) {
          expect(reply.ends, `seed ${SEED + round}`).toEqual(['done'])
          expect(reply.tokens).toEqual(singleNode(prompt, maxNewTokens))
        }
        expect(isIdle(nodes)).toBe(true)
      }
    })
  }

  it('the exchange - has the tags and the order of the original', () => {
    const fleet = new Fleet(1)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, peers: 'boostr' })
    ask(nodes.routers[0]!, [1n, 2n, 3n], 2)
    fleet.run()
    const tags = fleet.sent.map(({ tag }) => tag)
    expect(tags).toEqual([30, 10, 32, 32, 33, 31, 34, 35, 35, 35])
  })

  it('10 before 30 - works like 30 before 10', () => {
    const fleet = new Fleet(1)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    const worker = nodes.prefill[0]!
    const descriptor = { kind: 'prefill-request', requestId: 5n, seqLen: 2 } as const
    worker.receive(0, encodeBoostr({ kind: 'activation', tokenIds: BigInt64Array.of(1n, 2n) }))
    worker.receive(0, encodeBoostr({ ...descriptor, decodeRank: 200 }))
    fleet.run(400)
    expect(fleet.sent.map(({ tag }) => tag)).toEqual([32, 32, 33, 31])
  })

  it('limits - above is refused, below and equal is accepted, and the next request is right', () => {
    // Envelope 32, head 8, 8 per token.
    const size = 32 + 8 + 8 * 5
    const prompts = {
      four: [1n, 2n, 3n, 4n],
      five: [1n, 2n, 3n, 4n, 5n],
      six: [1n, 2n, 3n, 4n, 5n, 6n],
    }
    for (const limits of [
      { maxKvTransferBytes: size },
      { maxKvTransferBytes: 1e6, decodeMaxKvTransferBytes: size },
    ]) {
      const fleet = new Fleet(2)
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, ...limits })
      const router = nodes.routers[0]!
      for (const prompt of [prompts.four, prompts.five, prompts.six, prompts.five]) {
        const { reply } = ask(router, prompt)
        fleet.run()
        if (prompt.length === 6) expect(reply.ends).toEqual(['kv.transfer_failed'])
        else expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode(prompt, 12)])
      }
      expect(isIdle(nodes)).toBe(true)
    }
  })

  it.each(['baton', 'boostr'] as const)(
    'KV above the limit of the decode worker (%s peers) - only that request ends with an error, at once',
    (peers) => {
      const fleet = new Fleet(SEED)
      const limits = { maxKvTransferBytes: 1e6, decodeMaxKvTransferBytes: 200 }
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, peers, ...limits })
      const asked = [3, 200, 3, 5, 200, 4].map((length, i) => {
        const prompt = Array.from({ length }, (_, k) => BigInt(10 * i + k))
        return { prompt, ...ask(nodes.routers[0]!, prompt) }
      })
      fleet.run()
      for (const { prompt, reply } of asked) {
        if (prompt.length > 100) expect(reply.ends).toEqual(['kv.transfer_failed'])
        else expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode(prompt, 12)])
      }
      expect(isIdle(nodes)).toBe(true)
      expect(fleet.deadlineCount).toBe(0)
    },
  )

  it('a worker that dies at any message - ends every request with a typed error or its answer', () => {
    for (const victim of [100, 200, 0]) {
      for (let at = 1; at < 60; at++) {
        const fleet = new Fleet(at)
        const nodes = build(fleet, { routers: 1, prefill: 2, decode: 2 })
        let count = 0
        fleet.onSend = () => {
          count += 1
          if (count === at) fleet.kill(victim)
          return true
        }
        const asked = [1n, 2n, 3n, 4n].map((token) => ask(nodes.routers[0]!, [token, 9n]))
        fleet.run()
        const survivors = [...nodes.prefill, ...nodes.decode].filter(
          (_, i) => [100, 101, 200, 201][i] !== victim,
        )
        expect(survivors.map(({ load }) => load)).toEqual(survivors.map(() => 0))
        if (victim === 0) continue
        for (const { reply } of asked) {
          expect(reply.ends.length, `victim ${victim} at ${at}`).toBe(1)
          if (reply.error) expect(reply.error.data['stage']).toMatch(/prefill|decode/)
        }
        expect(nodes.routers[0]!.load).toBe(0)
      }
    }
  })

  it('lost messages - end with a deadline that names the stage, and the next request is right', () => {
    for (const tag of [10, 30, 31, 32, 33, 34, 35]) {
      const fleet = new Fleet(tag)
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
      let isLost = false
      fleet.onSend = (_from, _to, frame) => {
        const drop = frame.tag === tag && !isLost && tag !== 32
        if (drop) isLost = true
        return !drop
      }
      const { reply } = ask(nodes.routers[0]!, [1n, 2n])
      fleet.run()
      expect(reply.ends.length).toBe(1)
      if (tag === 10 || tag === 30) continue
      const again = ask(nodes.routers[0]!, [1n, 2n]).reply
      fleet.run()
      expect([again.ends, again.tokens]).toEqual([['done'], singleNode([1n, 2n], 12)])
      expect(isIdle(nodes)).toBe(true)
    }
  })

  it('cancel at any message - nothing follows, and all loads return to zero', () => {
    for (let at = 1; at < 30; at++) {
      const fleet = new Fleet(at)
      const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
      const { reply, handle } = ask(nodes.routers[0]!, [3n, 4n])
      let count = 0
      let before = 0
      fleet.onSend = () => {
        count += 1
        if (count === at) {
          handle.cancel()
          before = reply.tokens.length + reply.ends.length
        }
        return true
      }
      fleet.run()
      if (count >= at) expect(reply.tokens.length + reply.ends.length).toBe(before)
      expect(isIdle(nodes)).toBe(true)
    }
  })

  it('affinity - a hit goes to the same worker, a miss in turn, a dead one elsewhere', () => {
    const fleet = new Fleet(3)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 3 })
    const router = nodes.routers[0]!
    const workerOf = (key: string): number | undefined => {
      const { reply } = ask(router, [1n], 3, key)
      fleet.run()
      return reply.ends[0] === 'done' ? router.affinityOf(key) : undefined
    }
    const first = workerOf('a')
    const others = [workerOf('b'), workerOf('c')]
    expect(new Set([first, ...others]).size).toBe(3)
    expect(workerOf('a')).toBe(first)
    fleet.kill(first!)
    fleet.run()
    expect(router.affinityOf('a')).toBeUndefined()
    expect(others).toContain(workerOf('a'))
    for (let i = 0; i < 20; i++) router.recordKvAffinity(`k${i}`, 200)
    expect([router.affinityOf('k0'), router.affinityOf('k19')]).toEqual([undefined, 200])
  })

  it('no worker left, or a full queue - is refused at once', () => {
    const fleet = new Fleet(4)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    nodes.routers[0]!.peerGone(200)
    expect(ask(nodes.routers[0]!, [1n]).reply.ends).toEqual(['backend.worker_unavailable'])
  })

  it('foreign ids and ranks - are dropped and counted, KV without a request is not used', () => {
    const fleet = new Fleet(5)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    const router = nodes.routers[0]!
    const { reply } = ask(router, [1n, 2n])
    router.receive(200, encodeBoostr({ kind: 'decode-token', requestId: 1n, tokenId: 5n }))
    router.receive(200, encodeBoostr({ kind: 'decode-done', requestId: 77n }))
    expect(router.strayCount).toBe(2)
    const decode = nodes.decode[0]!
    decode.receive(0, encodeBoostr({ kind: 'decode-request', requestId: 9n, maxNewTokens: 3 }))
    expect(decode.refusedCount).toBe(1)
    fleet.run()
    expect(reply.tokens).toEqual(singleNode([1n, 2n], 12))
  })

  it('35 and 36 - count from the decode stage only, also from a rank with both roles', () => {
    const fleet = new Fleet(6)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    const router = nodes.routers[0]!
    const { reply } = ask(router, [1n, 2n])
    for (const rank of [100, 200]) {
      router.receive(rank, encodeBoostr({ kind: 'decode-token', requestId: 1n, tokenId: 5n }))
      router.receive(rank, encodeBoostr({ kind: 'decode-token', requestId: 1n, tokenId: -1n }))
      router.receive(rank, encodeBoostr({ kind: 'decode-done', requestId: 1n }))
    }
    expect([router.strayCount, reply.tokens, reply.ends]).toEqual([6, [], []])
    fleet.run()
    expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode([1n, 2n], 12)])
    // And 31 from the prefill stage only.
    const again = ask(router, [1n, 2n]).reply
    const before = router.strayCount
    router.receive(200, encodeBoostr({ kind: 'prefill-done', requestId: 2n, kvBytes: 9n }))
    expect(router.strayCount).toBe(before + 1)
    fleet.run()
    expect(again.tokens).toEqual(singleNode([1n, 2n], 12))
  })

  it.each([0, 1, 3])('%i tokens requested and more sent - only those are passed on', (wanted) => {
    const fleet = new Fleet(7)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    const router = nodes.routers[0]!
    const { reply } = ask(router, [1n, 2n], wanted)
    fleet.onSend = (_from, _to, { tag }) => tag < 34
    router.receive(100, encodeBoostr({ kind: 'prefill-done', requestId: 1n, kvBytes: 9n }))
    for (let token = 1n; token <= BigInt(wanted + 2); token++) {
      router.receive(200, encodeBoostr({ kind: 'decode-token', requestId: 1n, tokenId: token }))
    }
    expect(reply.tokens).toHaveLength(wanted)
    expect(router.strayCount).toBe(2)
    router.receive(200, encodeBoostr({ kind: 'decode-token', requestId: 1n, tokenId: -1n }))
    expect(reply.ends).toEqual(['done'])
  })

  it('a prefill that throws - is answered with no KV', () => {
    const fleet = new Fleet(10)
    const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1 })
    const faulty = new BoostrPrefillWorker({
      link: fleet.link(100),
      clock: fleet.clock,
      prefill: () => {
        throw new Error('out of memory')
      },
      decodeWorkers: [200],
      maxKvTransferBytes: 1e6,
      peers: 'baton',
      ackMs: 500,
      parkedMax: 4,
    })
    fleet.nodes.set(100, faulty)
    const { reply } = ask(nodes.routers[0]!, [1n])
    fleet.run()
    expect([reply.ends, faulty.load]).toEqual([['kv.transfer_failed'], 0])
  })

  it('configuration - a fleet that cannot work is refused by name', () => {
    const good = { prefillWorkers: [1], decodeWorkers: [2], routerRank: 0, maxKvTransferBytes: 1 }
    expect(createDisaggConfig(good)).toEqual(good)
    for (const [change, text] of [
      [{ prefillWorkers: [] }, /prefillWorkers is empty/],
      [{ decodeWorkers: [1] }, /rank 1 has more than one role/],
      [{ routerRank: -1 }, /routerRank/],
      [{ decodeWorkers: [2, 2] }, /rank 2/],
      [{ maxKvTransferBytes: 0 }, /maxKvTransferBytes/],
    ] as const) {
      expect(() => createDisaggConfig({ ...good, ...change })).toThrow(text)
    }
  })
})
