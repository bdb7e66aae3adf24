import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { unpack } from 'msgpackr'
import { afterEach, describe, expect, it } from 'vitest'
import { Dealer, Subscriber } from 'zeromq'
import { workerIdOf } from '../../base/index.ts'
import { RequestContext } from '../../engine/index.ts'
import { SimEngine } from '../../simengine/index.ts'
import type { SimEngineOptions } from '../../simengine/index.ts'
import { hashBlocks, hashesToBigints } from '../../kv/index.ts'
import { osClock } from '../../os/os-clock.ts'
import { ZmqKvBroadcast } from './zmq-kv-broadcast.ts'

const END = 2n ** 64n - 1n
const open: { close(): unknown }[] = []

afterEach(async () => {
  for (const each of open.splice(0)) await each.close()
})

function keep<T extends { close(): unknown }>(socket: T): T {
  open.push(socket)
  return socket
}

function engineOf(broadcast: ZmqKvBroadcast, options: Partial<SimEngineOptions> = {}): SimEngine {
  const engine = new SimEngine({
    clock: osClock,
    model: 'sim',
    speedupRatio: 'instantaneous',
    blockTokens: 4,
    blockCount: 3,
    kvEventsPort: 0,
    kvReplayPort: 0,
    kvBroadcast: broadcast,
    ...options,
  })
  keep({ close: () => engine.cleanup() })
  return engine
}

async function started(engine: SimEngine): Promise<{ events: string[]; replay: string[] }> {
  const { runtimeData } = await engine.start(workerIdOf(1))
  return {
    events: runtimeData!['kvEventsEndpoints'] as string[],
    replay: runtimeData!['kvReplayEndpoints'] as string[],
  }
}

async function prefill(engine: SimEngine, tokenIds: readonly number[], dpRank = 0): Promise<void> {
  const request = {
    requestId: 'a',
    model: 'sim',
    tokenIds: Uint32Array.from(tokenIds),
    sampling: {},
    stop: { maxTokens: 1 },
    output: {},
    eosTokenIds: [],
    routing: { dpRank },
  }
  for await (const chunk of engine.generate(request, new RequestContext('a'))) {
    expect(chunk.finish).toBe('length')
  }
}

const clear = (engine: SimEngine) => engine.controls['clear_kv_blocks']!({})
const hashesOf = (tokens: readonly number[]) =>
  hashesToBigints(hashBlocks(Uint32Array.from(tokens), 4).sequence)

interface Message {
  readonly number: bigint
  readonly payload: Buffer
}

function eventsOf({ payload }: Message): unknown[][] {
  const [ts, events, rank] = unpack(payload) as [number, unknown[][], number]
  expect(ts).toBeGreaterThan(1.6e9)
  expect(rank).toBe(0)
  return events
}

async function nextOf(subscriber: Subscriber): Promise<Message> {
  const frames = await subscriber.receive()
  expect(frames.map(({ length }) => length).slice(0, 2)).toEqual([0, 8])
  return { number: frames[1]!.readBigUInt64BE(), payload: frames[2]! }
}

/** A subscriber whose subscription is known to be active, because it has received a message. */
async function subscribed(engine: SimEngine, address: string): Promise<Subscriber> {
  const subscriber = keep(new Subscriber({ receiveTimeout: 20, ipv6: true }))
  subscriber.connect(address)
  subscriber.subscribe()
  for (;;) {
    await prefill(engine, [1, 2, 3, 4, 5])
    await clear(engine)
    const heard = await nextOf(subscriber).catch((error: NodeJS.ErrnoException) => {
      expect(error.code).toBe('EAGAIN')
      return null
    })
    if (heard !== null) break
  }
  subscriber.receiveTimeout = 60_000
  return subscriber
}

function asked(from: bigint | Buffer): Buffer {
  if (typeof from !== 'bigint') return from
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(from)
  return bytes
}

/** All replayed batches, without the end message. */
async function replayed(dealer: Dealer, from: bigint): Promise<Message[]> {
  await dealer.send(['', asked(from)])
  const messages: Message[] = []
  for await (const frames of dealer) {
    expect(frames.map(({ length }) => length).slice(0, 3)).toEqual([0, 0, 8])
    expect(frames).toHaveLength(4)
    const [, , number, payload] = frames
    const message = { number: number!.readBigUInt64BE(), payload: payload! }
    if (message.number === END) {
      expect(payload).toHaveLength(0)
      break
    }
    messages.push(message)
  }
  return messages
}

/** `localhost` may be an IPv6 address. */
function dealerOf(address: string): Dealer {
  const dealer = keep(new Dealer({ receiveTimeout: 60_000, ipv6: true }))
  dealer.connect(address)
  return dealer
}

describe('ZmqKvBroadcast', () => {
  it('publishes stored, removed and cleared blocks, in order and numbered', async () => {
    const engine = engineOf(new ZmqKvBroadcast({ host: '127.0.0.1' }))
    const { events, replay } = await started(engine)
    const subscriber = await subscribed(engine, events[0]!)
    const dealer = dealerOf(replay[0]!)
    const before = (await replayed(dealer, 0n)).length

    const [first, second] = [
      [11, 12, 13, 14, 15, 16, 17, 18, 19],
      [21, 22, 23, 24, 25, 26, 27, 28, 29],
    ]
    await prefill(engine, first!)
    await prefill(engine, second!)
    await clear(engine)
    const all = await replayed(dealer, 0n)
    expect(all.map(({ number }) => number)).toEqual(all.map((_, i) => BigInt(i)))
    const [a0, a1] = hashesOf(first!)
    const [b0, b1] = hashesOf(second!)
    expect(all.slice(before).flatMap(eventsOf)).toEqual([
      ['BlockStored', [a0, a1], null, first!.slice(0, 8), 4, null, 'GPU', null],
      ['BlockRemoved', [a1, a0], 'GPU'],
      ['BlockStored', [b0, b1], null, second!.slice(0, 8), 4, null, 'GPU', null],
      ['AllBlocksCleared'],
    ])

    let heard = await nextOf(subscriber)
    while (heard.number < all.length - 1) {
      expect(heard.payload.equals(all[Number(heard.number)]!.payload)).toBe(true)
      const next = await nextOf(subscriber)
      expect(next.number).toBe(heard.number + 1n)
      heard = next
    }
  })

  it('replays exactly the missed batches that are kept, and the end', async () => {
    const engine = engineOf(new ZmqKvBroadcast({ host: '127.0.0.1', batchesKept: 4 }))
    const { replay } = await started(engine)
    const dealer = dealerOf(replay[0]!)
    const numbers = async (from: bigint) =>
      (await replayed(dealer, from)).map((each) => each.number)
    expect(await numbers(0n)).toEqual([])
    for (let i = 0; i < 3; i++) await prefill(engine, [i + 1, 2, 3, 4, 5])
    expect(await numbers(0n)).toEqual([0n, 1n, 2n])
    expect(await numbers(2n)).toEqual([2n])
    expect(await numbers(3n)).toEqual([])
    expect(await numbers(END)).toEqual([])
    await prefill(engine, [4, 2, 3, 4, 5])
    expect(await numbers(0n)).toEqual([0n, 1n, 2n, 3n])
    await prefill(engine, [5, 2, 3, 4, 5])
    expect(await numbers(0n)).toEqual([1n, 2n, 3n, 4n])
    expect(await numbers(4n)).toEqual([4n])
    // An invalid request is ignored.
    await dealer.send(['', Buffer.alloc(7)])
    await dealer.send(['', Buffer.alloc(9)])
    await dealer.send(['x', asked(0n)])
    await dealer.send([asked(0n)])
    expect(await numbers(3n)).toEqual([3n, 4n])
  })

  it('encodes what every MessagePack decoder reads: plain lists, whole 64-bit numbers', async () => {
    const broadcast = keep(new ZmqKvBroadcast({ host: '127.0.0.1' }))
    const { replay } = await broadcast.listen({ events: 0, replay: 0, ranks: 1 })
    broadcast.publish(0, [1.5, [['BlockRemoved', [2n ** 64n - 1n, 5n], null]], 0])
    const [batch] = await replayed(dealerOf(replay[0]!), 0n)
    const name = Buffer.from('BlockRemoved').toString('hex')
    const hashes = '92cfffffffffffffffffd30000000000000005'
    expect(batch!.payload.toString('hex')).toBe(`93cb3ff80000000000009193ac${name}${hashes}c000`)
  })

  it('keeps past batches up to a size, and always the newest', async () => {
    const broadcast = keep(new ZmqKvBroadcast({ host: '127.0.0.1', bytesKept: 20 }))
    const { replay } = await broadcast.listen({ events: 0, replay: 0, ranks: 1 })
    const dealer = dealerOf(replay[0]!)
    const kept = async () =>
      (await replayed(dealer, 0n)).map(({ number, payload }) => [Number(number), payload.length])
    const publish = (bytes: number) => broadcast.publish(0, ['.'.repeat(bytes - 2)])
    for (const bytes of [10, 10]) publish(bytes)
    expect(await kept()).toEqual([0, 1].map((number) => [number, 10]))
    publish(11)
    expect(await kept()).toEqual([[2, 11]])
    publish(9)
    expect((await kept()).map(([number]) => number)).toEqual([2, 3])
    publish(30)
    expect(await kept()).toEqual([[4, 30]])
  })

  it('has separate sockets for each rank, and closes them once', async () => {
    const engine = engineOf(new ZmqKvBroadcast({ host: 'localhost' }), { dataParallelSize: 2 })
    const { events, replay } = await started(engine)
    expect(new Set([...events, ...replay]).size).toBe(4)
    await prefill(engine, [1, 2, 3, 4, 5], 1)
    expect(await replayed(dealerOf(replay[0]!), 0n)).toEqual([])
    const [batch] = await replayed(dealerOf(replay[1]!), 0n)
    expect(batch!.number).toBe(0n)
    expect((unpack(batch!.payload) as unknown[])[2]).toBe(1)
    await engine.cleanup()
    await engine.cleanup()
  })

  it('reports which port is taken', async () => {
    const server = keep(createServer())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const engine = engineOf(new ZmqKvBroadcast({ host: '127.0.0.1' }), { kvReplayPort: port })
    await expect(engine.start(workerIdOf(1))).rejects.toMatchObject({
      code: 'host.address_in_use',
      message: `port ${port} on 127.0.0.1 is in use: choose another port, or 0 for any free one`,
    })
    await engine.cleanup()
  })

  it('reports which package is missing, and only when it is needed', async () => {
    const load = (): Promise<unknown> => Promise.reject(new Error("Cannot find package 'zeromq'"))
    const broadcast = new ZmqKvBroadcast({ host: '127.0.0.1', load })
    await expect(engineOf(broadcast).start(workerIdOf(1))).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringContaining('npm i zeromq@6.8.0') as string,
    })
    await engineOf(broadcast, { mode: 'decode' }).start(workerIdOf(1))
  })
})
