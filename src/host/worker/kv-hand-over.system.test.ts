import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { BatonError, randomInt, seededRandom, workerIdOf } from '../../base/index.ts'
import type { KvPin } from '../../engine/index.ts'
import type { GenerateRequest, KvOffer } from '../../request/index.ts'
import { createModelRouter } from '../../router/index.ts'
import { RecordedReply } from '../../../test/worker/recorded-reply.ts'
import { LlamaCppEngine } from '../../llamacpp/index.ts'
import { openKvTcp } from '../../network/kv/open-kv.ts'
import { osClock } from '../../os/os-clock.ts'
import { TcpRequestPlane } from '../../network/plane/tcp-request-plane.ts'
import { until } from '../../../test/until.ts'
import {
  BLOCK_TOKENS,
  BYTES_PER_TOKEN,
  BlockEngine,
  breakingBlocks,
  breakingPins,
  decodeOf,
  heldBytesOf,
  only,
  prefill,
  requestOf,
  serve,
  startWorker,
} from '../../../test/worker/kv-workers.ts'

const MODEL = fileURLToPath(
  new URL('../../../models/storyteller/storyteller-q8_0.gguf', import.meta.url),
)

function transferred(): Uint8Array {
  const bytes = new Uint8Array(32)
  structuredClone(bytes, { transfer: [bytes.buffer] })
  return bytes
}

describe('KV transfer - two workers over sockets', () => {
  it('a prompt - is computed once, pulled, and released after the acknowledgement', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const request = requestOf('a', 18)
    const offer = await prefill(from, request)
    expect(offer).toMatchObject({ tokenCount: 17, blockTokens: 4, kvBytes: 17 * 8 })
    expect(from.engine.kvBlocks.pinnedBytes).toBe(17 * 8)
    expect(await heldBytesOf(from.events)).toBe(17 * 8)

    const reply = await serve(to, decodeOf(request, offer))
    expect(reply.terminal?.finish).toBe('length')
    expect(to.engine.computed).toEqual([0])
    expect(only(to.events, 'kv-taken')[0]).toMatchObject({ blocksPulled: 5, blocksHeld: 0 })
    expect(reply.starts.map(({ transfer }) => transfer)).toMatchObject([
      { bytes: 17 * 8, blocksPulled: 5, blocksHeld: 0, recomputed: false },
    ])
    await until('released', () => from.engine.kvBlocks.pinnedBytes === 0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('acknowledged')
    expect(await heldBytesOf(from.events)).toBe(0)
    expect(to.engine.kvBlocks.pinnedBytes).toBe(0)
  })

  it('a prompt with a known beginning - only the missing blocks are pulled', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const short = requestOf('a', 13)
    await serve(to, decodeOf(short, await prefill(from, short)))
    const long = requestOf('b', 25)
    await serve(to, decodeOf(long, await prefill(from, long)))
    expect(only(to.events, 'kv-taken').map((event) => event.blocksPulled)).toEqual([3, 3])
    expect(to.engine.computed).toEqual([0, 0])
    await serve(to, decodeOf(long, await prefill(from, long)))
    expect(only(to.events, 'kv-taken')[2]).toMatchObject({ blocksPulled: 0, bytesPulled: 0 })
    await until('all released', () => from.hosted.worker.health().openOffers === 0)
  })

  it.each([
    ['tenants with different salts', [{ cacheSalt: 'one' }, { cacheSalt: 'two' }]],
    ['a model and its adapter', [{}, { loraName: 'poet' }]],
  ])('%s - share nothing', async (_, hints) => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    for (const [i, routing] of hints.entries()) {
      const request = requestOf(String(i), 13, { routing })
      await serve(to, decodeOf(request, await prefill(from, request)))
    }
    expect(only(to.events, 'kv-taken').map((event) => event.blocksPulled)).toEqual([3, 3])
  })

  it('a prompt of one token - has nothing to transfer, and decode computes it', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const request = requestOf('a', 1, { stop: { maxTokens: 1 } })
    const reply = await serve(from, request)
    expect(reply.terminal?.finish).toBe('length')
    expect(reply.terminal?.prefillResult).toEqual({})
  })

  it('a request cancelled after its prefill - withdraws the offer', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const reply = new RecordedReply()
    const request = requestOf('a', 18, { stop: { maxTokens: 1 } })
    const handle = from.hosted.worker.serve(request, reply)
    await reply.ended
    handle.cancel('stop')
    expect(from.engine.kvBlocks.pinnedBytes).toBe(0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('withdrawn')
  })

  it('an engine whose pins throw at their release - requests end, and the fault is reported', async () => {
    const [from, to] = [
      await startWorker(breakingPins(new BlockEngine()), 'prefill'),
      await startWorker(breakingPins(new BlockEngine()), 'decode'),
    ]
    for (const id of ['a', 'b']) {
      const request = requestOf(id, 18)
      const reply = await serve(to, decodeOf(request, await prefill(from, request)))
      expect(reply.terminal?.finish).toBe('length')
    }
    await until('all released', () => from.hosted.worker.health().openOffers === 0)
    expect([from, to].map(({ hosted }) => hosted.worker.health().inFlight)).toEqual([0, 0])
    for (const { events } of [from, to]) {
      expect(only(events, 'engine-fault')[0]?.error.message).toContain('release broke')
    }
  })

  it.each<[string, Partial<KvPin>]>([
    ['keys that are no list of u32', { blockKeys: [1, 2] as never }],
    ['half a key', { blockKeys: new Uint32Array(9) }],
    ['a negative size', { kvBytes: -1 }],
    ['more tokens than the prompt', { tokenCount: 1e9 }],
  ])('an engine whose pins have %s - that request ends, nothing is offered', async (_, change) => {
    const release = vi.fn()
    const pin = { tokenCount: 17, blockKeys: new Uint32Array(10), kvBytes: 17, release, ...change }
    const from = await startWorker(breakingBlocks({ pin: () => pin }), 'prefill')
    const reply = await serve(from, requestOf('a', 18))
    expect(reply.failure?.code).toBe('backend.contract_violation')
    expect(reply.failure?.message).toContain('kv-blocks-invalid')
    expect(release).toHaveBeenCalledOnce()
    expect(from.hosted.worker.health()).toMatchObject({ openOffers: 0, inFlight: 0 })
  })

  it.each<[string, () => Uint8Array]>([
    ['are no bytes', () => 'abc' as never],
    ['were transferred to another thread', transferred],
    [
      'throw',
      () => {
        throw new TypeError('read broke')
      },
    ],
  ])('an engine whose blocks %s - the prompt is computed again', async (_, get) => {
    const from = await startWorker(breakingBlocks({ get }), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode', { kvFailure: 'recompute' })
    const request = requestOf('a', 18)
    const reply = await serve(to, decodeOf(request, await prefill(from, request)))
    expect(reply.terminal?.finish).toBe('length')
    expect(only(to.events, 'kv-recomputed')).toHaveLength(1)
    expect(only(from.events, 'engine-fault')[0]?.error.message).toContain('kv-blocks-invalid')
    await until('released', () => from.hosted.worker.health().openOffers === 0)
  })

  it('a decode worker that cannot be reached - the router releases the offer at once', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const plane = new TcpRequestPlane({ connectTimeoutMs: 1000 })
    onTestFinished(() => plane.close())
    const { card } = from
    const nobody = { ...card, workerId: workerIdOf(404), mode: 'decode', port: 1 } as const
    const router = createModelRouter({ plane, clock: osClock, random: seededRandom(1) })
    for (const worker of [card, nobody]) {
      router.fleet.workerJoined(worker)
      plane.workerJoined(worker)
    }
    const error = await new Promise<BatonError>((resolve, reject) => {
      router.service.send(requestOf('a', 18), {
        onToken: () => undefined,
        onChunk: () => reject(new Error('answered')),
        onError: resolve,
      })
    })
    expect(error.code).toBe('transport.cannot_connect')
    await until('released', () => from.engine.kvBlocks.pinnedBytes === 0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('withdrawn')
  })

  /** A frontend that has got an offer of the worker, whose leases do not end within the test. */
  const frontendWithOffer = async () => {
    const from = await startWorker(new BlockEngine(), 'prefill', { kvLeaseMs: 3_600_000 })
    const plane = new TcpRequestPlane()
    onTestFinished(() => plane.close())
    plane.workerJoined(from.card)
    const request = { ...requestOf('a', 18), stop: { maxTokens: 1 } }
    const sink = new RecordedReply()
    plane.send(from.card.workerId, request, {
      onToken: (tokenId) => sink.token(tokenId),
      onChunk: (chunk) => sink.chunk(chunk),
      onError: (error) => sink.error(error),
    })
    await sink.ended
    const offerId = sink.terminal?.prefillResult?.kvOffer?.offerId ?? ''
    expect(from.hosted.worker.health().openOffers).toBe(1)
    return { from, plane, offerId }
  }

  it('a frontend that is gone with an offer - its KV is released soon, not at the end of the lease', async () => {
    const { from, plane } = await frontendWithOffer()
    await plane.close()
    await until('released', () => from.hosted.worker.health().openOffers === 0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('abandoned')
  })

  it('a worker that has left discovery - still learns that its KV will not be fetched', async () => {
    const { from, plane, offerId } = await frontendWithOffer()
    plane.workerLeft(from.card.workerId, 'closed')
    plane.releaseKv(from.card.workerId, offerId)
    await until('released', () => from.hosted.worker.health().openOffers === 0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('withdrawn')
  })

  it('an offer that is not pulled - ends with its lease', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill', { kvLeaseMs: 50 })
    await prefill(from, requestOf('a', 18))
    await until('lease ended', () => from.engine.kvBlocks.pinnedBytes === 0)
    expect(only(from.events, 'kv-released')[0]?.reason).toBe('lease-ended')
  })
})

describe('KV transfer - failures', () => {
  it('the prefill worker is gone - a typed error, and nothing stays pinned', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const request = requestOf('a', 18)
    const offer = await prefill(from, request)
    await from.hosted.stop()
    const reply = await serve(to, decodeOf(request, offer))
    expect(['kv.transfer_failed', 'kv.offer_gone']).toContain(reply.failure?.code)
    expect(to.engine.kvBlocks.pinnedBytes).toBe(0)
    expect(to.engine.computed).toEqual([])
  })

  it('the prefill worker is gone, policy recompute - the prompt is computed here, and this is reported', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode', { kvFailure: 'recompute' })
    const request = requestOf('a', 18)
    const offer = await prefill(from, request)
    await from.hosted.stop()
    const reply = await serve(to, decodeOf(request, offer))
    expect(reply.terminal?.finish).toBe('length')
    expect(to.engine.computed).toEqual([17])
    expect(only(to.events, 'kv-recomputed')).toHaveLength(1)
    expect(reply.starts[0]?.transfer).toMatchObject({ bytes: 0, recomputed: true })
  })

  const foreign: readonly [string, (offer: KvOffer) => KvOffer][] = [
    ['another model', (offer) => ({ ...offer, fingerprint: 'other' })],
    ['another block size', (offer) => ({ ...offer, blockTokens: 8 })],
    ['more tokens than the prompt', (offer) => ({ ...offer, tokenCount: 18 })],
    ['no tokens', (offer) => ({ ...offer, tokenCount: 0 })],
    ['half a token', (offer) => ({ ...offer, tokenCount: 16.5 })],
    ['fewer keys than blocks', (offer) => ({ ...offer, blockKeys: offer.blockKeys.slice(2) })],
    [
      'keys of another prompt',
      (offer) => ({ ...offer, blockKeys: offer.blockKeys.map((k) => k ^ 1) }),
    ],
  ]
  it.each(foreign)(
    'an offer of %s - is refused before it reaches the engine',
    async (_, change) => {
      const from = await startWorker(new BlockEngine(), 'prefill')
      const to = await startWorker(new BlockEngine(), 'decode')
      const request = requestOf('a', 18)
      const reply = await serve(to, decodeOf(request, change(await prefill(from, request))))
      expect(['kv.block_refused', 'kv.transfer_failed', 'kv.offer_gone']).toContain(
        reply.failure?.code,
      )
      expect(to.engine.computed).toEqual([])
      expect(to.engine.kvBlocks.heldBytes).toBe(0)
      await until('no block is pinned', () => from.engine.kvBlocks.pinnedBytes === 0)
    },
  )

  it('blocks of a wrong length - are refused by the store, nothing is loaded', async () => {
    // A server that is correct except for the bytes.
    const hostile = await openKvTcp('prefill', { host: '127.0.0.1' })
    onTestFinished(() => hostile.close())
    const to = await startWorker(new BlockEngine(), 'decode')
    const request = requestOf('a', 18)
    const blockKeys = to.engine.kvBlocks.keysOf(request.tokenIds, 17)
    for (const length of [0, 1, 31, 33, 4096]) {
      let released = false
      const pin = {
        tokenCount: 17,
        blockKeys,
        kvBytes: 5 * length,
        release: () => (released = true),
      }
      const source = {
        fingerprint: 'block-engine',
        blockTokens: 4,
        get: () => new Uint8Array(length),
      }
      const offer = hostile.ends.server?.offer(pin, source)
      if (offer === undefined) throw new Error('no server')
      const reply = await serve(to, decodeOf(request, offer))
      expect(['kv.block_refused', 'kv.transfer_failed']).toContain(reply.failure?.code)
      await until('released', () => released)
    }
    expect(to.engine.computed).toEqual([])
    expect(to.engine.kvBlocks.heldBytes).toBe(0)
  })

  it.each(['fail', 'recompute'] as const)(
    'the prefill worker dies during the pull, policy %s - nothing hangs, nothing incomplete is loaded',
    async (kvFailure) => {
      const dying = await openKvTcp('prefill', { host: '127.0.0.1' })
      onTestFinished(() => dying.close())
      const to = await startWorker(new BlockEngine(), 'decode', { kvFailure })
      const request = requestOf('a', 18)
      const truth = new BlockEngine()
      let reads = 0
      const offer = dying.ends.server?.offer(
        {
          tokenCount: 17,
          blockKeys: truth.kvBlocks.keysOf(request.tokenIds, 17),
          kvBytes: 17 * BYTES_PER_TOKEN,
          release: () => undefined,
        },
        {
          fingerprint: truth.kvBlocks.fingerprint,
          blockTokens: BLOCK_TOKENS,
          get: () => {
            // The process dies when the third block is requested.
            if (++reads === 3) void dying.close()
            return new Uint8Array(BLOCK_TOKENS * BYTES_PER_TOKEN)
          },
        },
      )
      if (offer === undefined) throw new Error('no server')
      const reply = await serve(to, decodeOf(request, offer))
      if (kvFailure === 'fail') expect(reply.failure?.code).toMatch(/^kv\./)
      else expect(reply.terminal?.finish).toBe('length')
      expect(only(to.events, 'kv-recomputed')).toHaveLength(kvFailure === 'fail' ? 0 : 1)
      expect(to.engine.kvBlocks.pinnedBytes).toBe(0)
    },
  )

  it('a store that is too small for the prompt - a typed error', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(64), 'decode')
    const request = requestOf('a', 18)
    const reply = await serve(to, decodeOf(request, await prefill(from, request)))
    expect(reply.failure).toBeInstanceOf(BatonError)
    expect(reply.failure?.code).toMatch(/^kv\./)
    expect(to.engine.kvBlocks.pinnedBytes).toBe(0)
  })

  it('a request cancelled during the pull - ends with cancelled, the offer is released', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const request = requestOf('a', 18)
    const offer = await prefill(from, request)
    const reply = new RecordedReply()
    to.hosted.worker.serve(decodeOf(request, offer), reply).cancel('stop')
    await reply.ended
    expect(reply.terminal?.finish).toBe('cancelled')
    expect(to.engine.computed).toEqual([])
    await until('released', () => from.engine.kvBlocks.pinnedBytes === 0)
  })

  it('many requests at once - nothing stays pinned on either side', async () => {
    const from = await startWorker(new BlockEngine(), 'prefill')
    const to = await startWorker(new BlockEngine(), 'decode')
    const replies = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const request = requestOf(`r${i}`, 2 + ((i * 7) % 60))
        return serve(to, decodeOf(request, await prefill(from, request)))
      }),
    )
    expect(replies.every((reply) => reply.terminal?.finish === 'length')).toBe(true)
    await until('all released', () => from.engine.kvBlocks.pinnedBytes === 0)
    expect(to.engine.kvBlocks.pinnedBytes).toBe(0)
  })
})

describe('KV transfer - either side ends at any time', () => {
  it('60 requests, ended at random moments on either side - nothing stays pinned or admitted', async () => {
    const seed = Date.now() & 0xffff
    const random = seededRandom(seed)
    const from = await startWorker(new BlockEngine(), 'prefill', { kvLeaseMs: 300 })
    const to = await startWorker(new BlockEngine(), 'decode')
    const one = async (i: number): Promise<void> => {
      const request = requestOf(`r${i}`, 2 + randomInt(random, 80), {
        routing: { cacheSalt: String(randomInt(random, 20)) },
      })
      const prefilled = new RecordedReply()
      const first = from.hosted.worker.serve({ ...request, stop: { maxTokens: 1 } }, prefilled)
      if (randomInt(random, 6) === 0) first.cancel(randomInt(random, 2) === 0 ? 'stop' : 'kill')
      await prefilled.ended
      const offer = prefilled.terminal?.prefillResult?.kvOffer
      if (offer === undefined) return
      // It is not pulled, so its lease has to expire.
      if (randomInt(random, 6) === 0) return
      if (randomInt(random, 6) === 0) first.cancel('stop')
      const decoded = new RecordedReply()
      const second = to.hosted.worker.serve(decodeOf(request, offer), decoded)
      if (randomInt(random, 3) === 0) {
        const leaveMs = randomInt(random, 4)
        setTimeout(() => second.cancel(leaveMs % 2 === 0 ? 'stop' : 'kill'), leaveMs)
      }
      await decoded.ended
      expect(decoded.itemsAfterEnd).toBe(0)
    }
    await Promise.all(Array.from({ length: 60 }, (_, i) => one(i)))
    await until(`seed ${seed}: no pin at prefill`, () => from.engine.kvBlocks.pinnedBytes === 0)
    await until(`seed ${seed}: no pin at decode`, () => to.engine.kvBlocks.pinnedBytes === 0)
    for (const { hosted } of [from, to]) {
      await until(`seed ${seed}: nobody inside`, () => hosted.worker.health().inFlight === 0)
      expect(hosted.worker.health().openOffers).toBe(0)
    }
    const offered = only(from.events, 'kv-offered').length
    expect(only(from.events, 'kv-released'), `seed ${seed}`).toHaveLength(offered)
  })
})

describe('KV transfer - llama.cpp', () => {
  it('greedy output over two workers - equals that of one, and decode computes no prompt', async () => {
    const options = { modelPath: MODEL, sequences: 2, contextSize: 512 }
    const one = await startWorker(new LlamaCppEngine({ ...options, mode: 'agg' }), 'agg')
    const from = await startWorker(new LlamaCppEngine({ ...options, mode: 'prefill' }), 'prefill')
    const to = await startWorker(new LlamaCppEngine({ ...options, mode: 'decode' }), 'decode')
    let offersAhead = 0
    for (const promptTokens of [1, 2, 16, 17, 18, 120, 300, 480]) {
      const request: GenerateRequest = {
        requestId: `p${promptTokens}`,
        model: 'storyteller',
        tokenIds: Uint32Array.from({ length: promptTokens }, (_, i) => 5 + ((i * 37) % 200)),
        sampling: { temperature: 0 },
        stop: { maxTokens: 12, ignoreEos: true },
        output: {},
        eosTokenIds: [],
        routing: {},
      }
      const alone = await serve(one, request)
      const prefilled = new RecordedReply()
      from.hosted.worker.serve({ ...request, stop: { maxTokens: 1 } }, prefilled)
      await until('an offer, or the end', () => prefilled.chunks.length > 0)
      const prefillResult = prefilled.chunks[0]?.prefillResult ?? {}
      if (prefillResult.meetsDecode === true) offersAhead++
      expect(prefillResult.kvOffer?.tokenCount).toBe(
        promptTokens > 1 ? promptTokens - 1 : undefined,
      )
      const decoded = await serve(to, { ...request, prefillResult })
      await prefilled.ended
      expect(prefilled.terminal?.prefillResult?.kvOffer).toEqual(prefillResult.kvOffer)
      expect(decoded.tokens).toEqual(alone.tokens)
      expect(decoded.tokens).toHaveLength(12)
    }
    expect(only(to.events, 'kv-taken')).toHaveLength(7)
    // All except the first, whose duration is unknown, unless the machine is very slow.
    expect(offersAhead).toBeGreaterThan(0)
    await until('all released', () => from.hosted.worker.health().openOffers === 0)
  })
})
