import { describe, expect, it } from 'vitest'

import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'
import type { Topology } from '../../../test/wire/boostr-fleet.ts'
import { singleNode } from '../../../test/wire/boostr-toy.ts'

const SEED = Date.now() % 1e9
/** Envelope 32, head 8, 8 per token. */
const KV_BYTES = 32 + 8 + 8 * 5

function start(limits: Partial<Topology>) {
  const fleet = new Fleet(SEED)
  const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, ...limits })
  const askSome = (count: number) =>
    Array.from({ length: count }, (_, i) => {
      const prompt = [1n, 2n, 3n, 4n, BigInt(i)]
      return { prompt, ...ask(nodes.routers[0]!, prompt) }
    })
  return { fleet, nodes, askSome }
}

/** Each request ends once: right, or with that error. Returns how many were right. */
function rightOf(asked: ReturnType<ReturnType<typeof start>['askSome']>, error: string): number {
  for (const { prompt, reply } of asked) {
    if (reply.ends[0] === 'done') expect(reply.tokens).toEqual(singleNode(prompt, 12))
    else expect(reply.ends).toEqual([error])
  }
  return asked.filter(({ reply }) => reply.ends[0] === 'done').length
}

describe('the limits of a fleet', () => {
  it('more requests than a worker may have at a time - wait, and more than may wait are refused', () => {
    const { fleet, nodes, askSome } = start({ inFlightMax: 3, queueMax: 4 })
    let most = 0
    fleet.onSend = () => {
      most = Math.max(most, nodes.decode[0]!.load, nodes.prefill[0]!.load)
      return true
    }
    const asked = askSome(10)
    expect(fleet.sent.filter(({ tag }) => tag === 30)).toHaveLength(3)
    fleet.run()
    expect(rightOf(asked, 'capacity.exhausted')).toBe(7)
    expect(most).toBeLessThanOrEqual(3)
    expect(isIdle(nodes)).toBe(true)
  })

  it('a client that leaves - its prompt counts until it is computed, so that prompts cannot pile up', () => {
    const { fleet, nodes, askSome } = start({ inFlightMax: 3 })
    for (const { handle } of askSome(3)) handle.cancel()
    const asked = askSome(2)
    expect(fleet.sent.filter(({ tag }) => tag === 30)).toHaveLength(3)
    fleet.run()
    expect(rightOf(asked, '')).toBe(2)
    expect(isIdle(nodes)).toBe(true)
  })

  it('no worker becomes free - the requests that wait have a deadline', () => {
    const { fleet, nodes, askSome } = start({ inFlightMax: 1, queueMs: 700 })
    fleet.extraDelayMs = (_from, _to, { tag }) => (tag === 10 ? 800 : 0)
    const asked = askSome(3)
    fleet.run(790)
    expect(asked.map(({ reply }) => reply.error?.data['stage'])).toEqual([undefined, 'queue', 'queue']) // prettier-ignore
    fleet.run()
    expect(rightOf(asked, 'request.deadline_exceeded')).toBe(1)
    expect(isIdle(nodes)).toBe(true)
  })

  it('a decode worker that acknowledges nothing - bounds the KV that waits for it', () => {
    const { fleet, nodes, askSome } = start({ prefillKvBytesMax: 3 * KV_BYTES })
    const [prefill] = nodes.prefill
    let most = 0
    fleet.onSend = () => {
      most = Math.max(most, prefill!.heldBytes)
      return true
    }
    fleet.extraDelayMs = (_from, _to, { tag }) => (tag === 33 ? 100 : 0)
    const asked = askSome(10)
    fleet.run()
    expect(rightOf(asked, 'kv.transfer_failed')).toBe(3)
    expect([most, prefill!.heldBytes]).toEqual([3 * KV_BYTES, 0])
    const again = askSome(3)
    fleet.run()
    expect(rightOf(again, '')).toBe(3)
  })

  it('KV that arrives, waits and is in use - is bounded, and its room is used again', () => {
    const { fleet, nodes, askSome } = start({ decodeKvBytesMax: 3 * KV_BYTES })
    const [decode] = nodes.decode
    let most = 0
    fleet.onSend = (_from, _to, { tag }) => {
      if (tag === 33) most = Math.max(most, decode!.load)
      return tag !== 34
    }
    const asked = askSome(10)
    fleet.run(900)
    expect([most, decode!.load]).toEqual([3, 3])
    fleet.run()
    expect(asked.filter(({ reply }) => reply.ends[0] === 'kv.transfer_failed')).toHaveLength(7)
    expect([decode!.heldBytes, isIdle(nodes)]).toEqual([0, true])
    fleet.onSend = () => true
    const again = askSome(1)
    fleet.run()
    expect(rightOf(again, '')).toBe(1)
  })
})
