/** The functions of a user's module may hand over any value: only the request that it was for may end. */
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'
import { decodeStep, kvOf, singleNode } from '../../../test/wire/boostr-toy.ts'
import { BoostrDecodeWorker } from './boostr-decode-worker.ts'
import type { DecodeStepFunction } from './boostr-decode-worker.ts'
import { BoostrPrefillWorker } from './boostr-prefill-worker.ts'
import type { PrefillFunction } from './boostr-prefill-worker.ts'
import { TOKEN_END, TOKEN_EOS } from './boostr-message.ts'

const SEED = Date.now() % 1e9

/** The guilty prompt begins with this token. */
const BAD = 666n
/** Long enough to outlive the guilty one. */
const MAX_TOKENS = 200

const refuse = (): never => {
  throw new Error('not readable')
}
const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

interface Module {
  readonly prefill?: PrefillFunction
  readonly decodeStep?: DecodeStepFunction
}

/** One guilty request between others, of which each must get its own answer. */
async function serve(peers: 'baton' | 'boostr', bad: Module) {
  const fleet = new Fleet(SEED)
  const nodes = build(fleet, { routers: 1, prefill: 1, decode: 1, peers })
  const faults: unknown[] = []
  const onFault = (thrown: unknown): unknown => faults.push(thrown)
  const { clock } = fleet
  const common = { clock, peers, onFault, maxKvTransferBytes: 1e6 }
  const prefill = new BoostrPrefillWorker({
    ...common,
    link: fleet.link(100),
    prefill: (ids, done) => {
      if (ids[0] === BAD && bad.prefill) return bad.prefill(ids, done)
      clock.after(fleet.random.next() * 20, () => done(kvOf(ids)))
    },
    decodeWorkers: [200],
    ackMs: 500,
    parkedMax: 10,
  })
  let isDue = false
  const schedule = (): void => {
    if (isDue) return
    isDue = true
    clock.after(5, () => {
      isDue = false
      decode.step()
      if (decode.hasWork) schedule()
    })
  }
  const decode = new BoostrDecodeWorker({
    ...common,
    link: fleet.link(200),
    decodeStep: (kv, last, position) => {
      const isBad = new DataView(kv.buffer, kv.byteOffset).getBigInt64(8, true) === BAD
      return isBad && bad.decodeStep
        ? bad.decodeStep(kv, last, position)
        : decodeStep(kv, last, position)
    },
    kvBytesMax: 1e6,
    kvWaitMs: 3_000,
    onWork: schedule,
  })
  fleet.nodes.set(100, prefill)
  fleet.nodes.set(200, decode)
  const asked = [1n, 2n, BAD, 3n, 4n].map((first) => {
    const prompt = [first, 5n]
    return { prompt, ...ask(nodes.routers[0]!, prompt, MAX_TOKENS) }
  })
  for (let untilMs = 20; untilMs < 3_000; untilMs += 20) {
    fleet.run(untilMs)
    // Promises of the module.
    await new Promise((resolve) => setImmediate(resolve))
  }
  fleet.run()
  for (const { prompt, reply } of asked) {
    if (prompt[0] === BAD) continue
    expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode(prompt, MAX_TOKENS)])
  }
  expect(isIdle({ routers: nodes.routers, prefill: [prefill], decode: [decode] })).toBe(true)
  return { reply: asked[2]!.reply, faults, deadlineCount: fleet.deadlineCount }
}

const given = (value: unknown): PrefillFunction => {
  return (_, done) => void setImmediate(() => done(value as never))
}
const stepped = (value: unknown): DecodeStepFunction => {
  return () => value as ReturnType<DecodeStepFunction>
}
const KV = new Uint8Array(24)

describe.each(['baton', 'boostr'] as const)('%s peers', (peers) => {
  it.each<[string, PrefillFunction]>([
    ['null', given(null)],
    ['nothing', given(undefined)],
    ['a record with a length', given({ length: 8 })],
    ['a list', given([1, 2, 3])],
    ['a text', given('kv')],
    ['an ArrayBuffer', given(new ArrayBuffer(8))],
    ['numbers of 32 bits', given(new Float32Array(8))],
    ['what only inherits from bytes', given(Object.create(Uint8Array.prototype))],
    ['a proxy of bytes', given(new Proxy(KV, {}))],
    ['a revoked proxy', given(revoked())],
    ['an error', given(new Error('out of memory'))],
    ['an error of Baton', given(new BatonError('backend.unknown', 'out of memory'))],
    ['a promise', given(Promise.resolve(KV))],
    // oxlint-disable-next-line typescript/promise-function-async -- rejects
    ['a rejected promise as its result', () => Promise.reject(new Error('out of memory'))],
    [
      'an exception after the call',
      (_, done) => {
        done(null as never)
        throw new Error('out of memory')
      },
    ],
    ['a thrown value without a text', () => { throw Object.create(null) }], // prettier-ignore
    ['a result whose `then` throws', () => ({ get then() { return refuse() } }) as never], // prettier-ignore
  ])('prefill: %s - only its own request ends, and the fault is reported', async (_name, bad) => {
    const { reply, faults } = await serve(peers, { prefill: bad })
    expect(reply.ends).toEqual(['kv.transfer_failed'])
    expect(faults.length).toBeGreaterThan(0)
  })

  it.each<[string, DecodeStepFunction]>([
    ['nothing', stepped(undefined)],
    ['null', stepped(null)],
    ['a number', stepped(5)],
    ['an empty record', stepped({})],
    ['a number as its token', stepped({ tokenId: 5, kv: KV })],
    ['a text as its token', stepped({ tokenId: '5', kv: KV })],
    ['a token above 64 bits', stepped({ tokenId: 1n << 80n, kv: KV })],
    ['no KV', stepped({ tokenId: 5n })],
    ['null as its KV', stepped({ tokenId: 5n, kv: null })],
    ['an ArrayBuffer as its KV', stepped({ tokenId: 5n, kv: new ArrayBuffer(24) })],
    ['more KV than the worker may hold', stepped({ tokenId: 5n, kv: new Uint8Array(1e6 + 1) })],
    ['a field that throws', stepped({ tokenId: 5n, get kv() { return refuse() } })], // prettier-ignore
    ['a revoked proxy', stepped(revoked())],
    ['a promise', () => Promise.resolve({ tokenId: 5n, kv: KV }) as never],
    ['a promise that is rejected', () => Promise.reject(new Error('bad block')) as never],
    ['a thrown value without a text', () => { throw Object.create(null) }], // prettier-ignore
  ])(
    'decodeStep: %s - only its own request ends, and the fault is reported',
    async (_name, bad) => {
      const { reply, faults, deadlineCount } = await serve(peers, { decodeStep: bad })
      const code = peers === 'baton' ? 'backend.unknown' : 'backend.worker_unavailable'
      expect([reply.ends, reply.tokens]).toEqual([[code], []])
      expect([faults.length, deadlineCount]).toEqual([1, 0])
    },
  )

  it.each([TOKEN_EOS, TOKEN_END])('decodeStep: the end (%i), without KV', async (tokenId) => {
    let left = 3
    const { reply, faults } = await serve(peers, {
      decodeStep: (kv) => (left-- > 0 ? { tokenId: 9n, kv } : ({ tokenId } as never)),
    })
    expect([reply.ends, reply.tokens, left]).toEqual([['done'], [9n, 9n, 9n], -1])
    expect(faults).toEqual([])
  })

  it('prefill: an empty KV - affects no other request', async () => {
    const { reply } = await serve(peers, { prefill: (_, done) => done(new Uint8Array(0)) })
    expect(reply.ends).toHaveLength(1)
  })

  it('prefill: ids that are passed on to a thread, a KV whose bytes are used again', async () => {
    const { reply } = await serve(peers, {
      prefill: (ids, done) => {
        const kv = kvOf(ids)
        structuredClone(ids, { transfer: [ids.buffer as ArrayBuffer] })
        done(kv)
        kv.fill(0)
      },
    })
    expect([reply.ends, reply.tokens]).toEqual([['done'], singleNode([BAD, 5n], MAX_TOKENS)])
  })
})
