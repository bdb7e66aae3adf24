import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'

import { BatonError, randomInt, seededRandom } from '../../base/index.ts'
import type { KvOffer } from '../../request/index.ts'
import { KvTcpClient } from './kv-tcp-client.ts'
import { KvTcpServer } from './kv-tcp-server.ts'
import { KitBlocks, KitTarget, until } from '../../testing/kv-transport-kit.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function listen(options = {}): Promise<KvTcpServer> {
  const server = await KvTcpServer.listen({ chunkBytes: 10_000, graceMs: 2_000, ...options })
  cleanups.push(() => server.close())
  return server
}

function client(options = {}): KvTcpClient {
  const made = new KvTcpClient(options)
  cleanups.push(() => made.close())
  return made
}

/** A proxy to the server that a test can manipulate: `meddle` sees every piece that flows to the puller. */
async function proxyTo(
  offer: KvOffer,
  meddle: (piece: Buffer, toPuller: Socket, fromServer: Socket) => void,
): Promise<KvOffer> {
  const server = createServer((near) => {
    const far = connect(offer.port, offer.host)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    near.pipe(far)
    far.on('data', (piece: Buffer) => meddle(piece, near, far))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => server.close())
  return { ...offer, port: (server.address() as AddressInfo).port }
}

async function failureOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'none'
  } catch (error) {
    return error instanceof BatonError ? error.code : String(error)
  }
}

const isSame = (target: KitTarget, { blocks }: KitBlocks): boolean =>
  target.taken.size === blocks.size &&
  [...blocks].every(([i, bytes]) => Buffer.compare(bytes, target.taken.get(i) ?? bytes) === 0)

const sizes = (count: number, size: number): number[] => Array<number>(count).fill(size)

describe('KV over TCP', () => {
  it('memory of the target - is used for the bytes; after an interruption only the missing part is requested', async () => {
    const server = await listen()
    const blocks = new KitBlocks(sizes(6, 30_000))
    const given: Uint8Array[] = []
    const target = new KitTarget()
    const puller = client()
    await puller.pull(server.offer(blocks.pin(), blocks), [0, 1, 2, 3, 4, 5], {
      put: (index, bytes) => target.put(index, bytes),
      allocate: (byteLength) => {
        const bytes = new Uint8Array(byteLength)
        given.push(bytes)
        return bytes
      },
    })
    expect(isSame(target, blocks)).toBe(true)
    expect([...target.taken.values()].every((bytes, i) => bytes === given[i])).toBe(true)
    const short = puller.pull(server.offer(blocks.pin(), blocks), [0], {
      put: () => true,
      allocate: (byteLength) => new Uint8Array(byteLength - 1),
    })
    expect(await failureOf(short)).toBe('kv.transfer_failed')
    await until('release', () => blocks.openPins === 0)
  })

  describe('an offer whose last blocks are still being computed', () => {
    async function pullOfHalf() {
      const server = await listen()
      const blocks = new KitBlocks(sizes(6, 30_000))
      const whole = [...blocks.blocks]
      const pin = blocks.pin()
      let isWhole = false
      const hold = {
        tokenCount: pin.tokenCount,
        blockKeys: pin.blockKeys,
        kvBytes: pin.kvBytes,
        get isWhole() {
          return isWhole
        },
        release: () => pin.release(),
      }
      for (const [index] of whole.slice(3)) blocks.blocks.delete(index)
      const offer = server.offer(hold, blocks)
      const target = new KitTarget()
      const pulled = client().pull(offer, [0, 1, 2, 3, 4, 5], target)
      await until('the first half', () => target.taken.size === 3)
      const grow = (count: number): void => {
        for (const [index, bytes] of whole.slice(0, count)) blocks.blocks.set(index, bytes)
        isWhole = count === whole.length
        server.grown(offer.offerId)
      }
      return { server, blocks, offer, target, pulled, grow }
    }

    it('the rest - is sent as it is computed', async () => {
      const { blocks, target, pulled, grow } = await pullOfHalf()
      grow(4)
      await until('the fourth', () => target.taken.size === 4)
      grow(6)
      expect(await pulled).toMatchObject({ blocks: 6, bytes: 180_000, resumed: 0 })
      expect(isSame(target, blocks)).toBe(true)
      await until('release', () => blocks.openPins === 0)
    })

    it('withdrawn - the pull ends at once', async () => {
      const { server, blocks, offer, pulled } = await pullOfHalf()
      server.withdraw(offer.offerId)
      expect(await failureOf(pulled)).toBe('kv.offer_gone')
      expect([blocks.openPins, blocks.doubleReleases]).toEqual([0, 0])
    })
  })

  it('checksums of several offers - are computed ahead after the first pull', async () => {
    const server = await listen({ checksum: true })
    const blocks = new KitBlocks([0, 1, 9_999, 10_000, 10_001, 300_000])
    const all = [...blocks.blocks.keys()]
    const puller = client()
    for (let i = 0; i < 3; i++) {
      const target = new KitTarget()
      await puller.pull(server.offer(blocks.pin(), blocks), all, target)
      expect(isSame(target, blocks)).toBe(true)
    }
    // An offer without a pull, whose checksums are being computed when the server closes.
    server.offer(blocks.pin(), blocks)
    await server.close()
    expect(blocks.openPins).toBe(0)
  })

  it('a connection that is lost - the pull continues with the missing blocks', async () => {
    const server = await listen()
    const blocks = new KitBlocks(sizes(40, 50_000))
    const through = new Map<Socket, number>()
    const offer = await proxyTo(server.offer(blocks.pin(), blocks), (piece, toPuller) => {
      const before = through.get(toPuller) ?? 0
      through.set(toPuller, before + piece.length)
      // Enough data for some blocks has passed; the next connection is cut in turn.
      if (through.size > 2 || before < 400_000) toPuller.write(piece)
      else if (toPuller.writable) toPuller.destroySoon()
    })
    const target = new KitTarget()
    const stats = await client().pull(offer, [...blocks.blocks.keys()], target)
    expect([stats.resumed, stats.blocks, stats.bytes]).toEqual([2, 40, 2_000_000])
    for (const [index, bytes] of blocks.blocks) {
      expect(Buffer.compare(bytes, target.taken.get(index)!)).toBe(0)
    }
    expect(server.stats.bytesSent).toBeLessThan(3 * 2_000_000)
    await until('release', () => blocks.openPins === 0)
  })

  it('the frontend of an offer is lost - the KV is kept for 3 s for a puller that has the offer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const server = await KvTcpServer.listen()
    cleanups.push(() => server.close())
    const blocks = new KitBlocks([1_000])
    const { offerId } = server.offer(blocks.pin(), blocks)
    server.frontendLost(offerId)
    vi.advanceTimersByTime(2_999)
    expect(blocks.openPins).toBe(1)
    vi.advanceTimersByTime(2)
    expect(blocks.openPins).toBe(0)
  })

  it('a connection that is lost again and again - the pull fails, the offer is released', async () => {
    const server = await listen({ graceMs: 20 })
    const blocks = new KitBlocks(sizes(4, 500_000))
    const offer = await proxyTo(server.offer(blocks.pin(), blocks), (piece, toPuller) => {
      if (piece.length > 5_000) toPuller.destroy()
      else toPuller.write(piece)
    })
    const failure = await failureOf(client().pull(offer, [0, 1, 2, 3], new KitTarget()))
    expect(['kv.transfer_failed', 'kv.offer_gone']).toContain(failure)
    await until('release', () => blocks.openPins === 0)
  })

  it('a flipped bit - is refused before the block is passed on', async () => {
    const server = await listen({ checksum: true })
    const blocks = new KitBlocks([200_000])
    let seen = 0
    const offer = await proxyTo(server.offer(blocks.pin(), blocks), (piece, toPuller) => {
      seen += piece.length
      if (seen > 50_000 && piece.length > 1_000) piece[500] = (piece[500] ?? 0) ^ 1
      toPuller.write(piece)
    })
    const target = new KitTarget()
    expect(await failureOf(client().pull(offer, [0], target))).toBe('kv.block_refused')
    expect(target.taken.size).toBe(0)
  })

  const seed = Date.now() % 1e9
  it(`random bit flips on the way, seed ${seed} - no wrong block is passed on, by default`, async () => {
    const random = seededRandom(seed)
    const server = await listen()
    // Of equal size: a damaged head could move each to the place of another.
    const blocks = new KitBlocks(sizes(8, 3_000))
    let wholes = 0
    for (let round = 0; round < 60; round++) {
      const offer = await proxyTo(server.offer(blocks.pin(), blocks), (piece, toPuller) => {
        // Bytes after the handshake; one bit in most pieces is flipped.
        if (piece.length > 200) {
          const at = randomInt(random, piece.length)
          if (random.next() < 0.9) piece[at] = (piece[at] ?? 0) ^ (1 << randomInt(random, 8))
        }
        toPuller.write(piece)
      })
      const target = new KitTarget()
      const puller = client({ stallMs: 300, connectTimeoutMs: 300 })
      const failure = await failureOf(puller.pull(offer, [...blocks.blocks.keys()], target))
      if (failure === 'none') wholes += 1
      for (const [index, bytes] of target.taken) {
        expect(Buffer.compare(bytes, blocks.blocks.get(index)!), `round ${round}`).toBe(0)
      }
      await puller.close()
    }
    expect(wholes).toBeLessThan(60)
  })

  it('checksums turned off - the server says so, and damage is not detected', async () => {
    const server = await listen({ checksum: false })
    const blocks = new KitBlocks([200_000])
    let seen = 0
    const offer = await proxyTo(server.offer(blocks.pin(), blocks), (piece, toPuller) => {
      seen += piece.length
      if (seen > 50_000 && piece.length > 1_000) piece[500] = (piece[500] ?? 0) ^ 1
      toPuller.write(piece)
    })
    expect(await failureOf(client().pull(offer, [0], new KitTarget()))).toBe('none')
  })

  it('more bytes than were offered - are refused before memory is allocated', async () => {
    const server = await listen()
    const blocks = new KitBlocks([200_000])
    const offer = server.offer(blocks.pin(), blocks)
    const lying = { ...offer, kvBytes: 1_000 }
    expect(await failureOf(client().pull(lying, [0], new KitTarget()))).toBe('kv.block_refused')
    const huge = { ...offer, kvBytes: 2 ** 50 }
    expect(await failureOf(client().pull(huge, [0], new KitTarget()))).toBe('kv.transfer_failed')
  })

  it('the limit of the puller - up to it pulls succeed, above it they are refused before any request', async () => {
    const server = await listen()
    const puller = client({ kvBytesMax: 1_000 })
    for (const [size, outcome] of [
      [999, 'none'],
      [1_000, 'none'],
      [1_001, 'kv.transfer_failed'],
    ] as const) {
      const blocks = new KitBlocks([size])
      const offer = server.offer(blocks.pin(), blocks)
      expect(await failureOf(puller.pull(offer, [0], new KitTarget()))).toBe(outcome)
      await until('release', () => blocks.openPins === 0)
    }
    expect(server.stats.bytesSent).toBe(1_999)
  })

  it('a puller that does not read - the server reads a bounded part of the store, and continues later', async () => {
    const server = await listen({ leaseMs: 60_000 })
    const blocks = new KitBlocks(sizes(1, 1024 * 1024))
    const count = 64
    const blockKeys = Uint32Array.from({ length: 2 * count }, (_, i) => i % 2)
    const pin = () => ({ ...blocks.pin(), blockKeys, kvBytes: count * 2 ** 20 })
    let seen = 0
    const paused: { resume(): unknown }[] = []
    const offer = await proxyTo(server.offer(pin(), blocks), (piece, toPuller, fromServer) => {
      seen += piece.length
      if (seen > 1_000_000 && paused.length === 0) paused.push(fromServer.pause())
      toPuller.write(piece)
    })
    const target = new KitTarget()
    const indexes = Array.from({ length: count }, (_, i) => i)
    const pulled = client().pull(offer, indexes, target)
    await until('the puller to stop', () => paused.length > 0)
    // While the first does not read, another puller gets all blocks.
    const other = client().pull(server.offer(pin(), blocks), indexes, new KitTarget())
    expect((await other).bytes).toBe(count * 2 ** 20)
    // The kernel buffers a few MB on each side.
    expect(server.stats.bytesSent - count * 2 ** 20).toBeLessThan(32 * 2 ** 20)
    paused[0]?.resume()
    expect((await pulled).bytes).toBe(count * 2 ** 20)
  })

  it('a silent server - the pull fails after its deadline', async () => {
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => silent.close())
    const server = await listen()
    const blocks = new KitBlocks([100])
    const { port } = silent.address() as AddressInfo
    const offer = { ...server.offer(blocks.pin(), blocks), port }
    const puller = client({ stallMs: 100, connectTimeoutMs: 5_000 })
    expect(await failureOf(puller.pull(offer, [0], new KitTarget()))).toBe('kv.transfer_failed')
  })

  it('a wrong secret - no KV is sent', async () => {
    const server = await listen({ secret: 'a' })
    const blocks = new KitBlocks([100])
    const offer = server.offer(blocks.pin(), blocks)
    const pulled = client({ secret: 'b' }).pull(offer, [0], new KitTarget())
    expect(await failureOf(pulled)).toBe('kv.transfer_failed')
    expect(server.stats.bytesSent).toBe(0)
  })

  it('200 transfers that die at random - no pin is left', async () => {
    const seed = Date.now() % 1e9
    const random = seededRandom(seed)
    const server = await listen({ graceMs: 20, leaseMs: 300 })
    const jobs = Array.from({ length: 200 }, async (_, i) => {
      const blocks = new KitBlocks(sizes(1 + randomInt(random, 5), randomInt(random, 60_000)))
      const puller = client()
      const target = new KitTarget()
      const controller = new AbortController()
      const fate = randomInt(random, 5)
      target.onTake = () => {
        if (fate === 1) void puller.close()
        if (fate === 2) controller.abort()
        return fate !== 3
      }
      const offer = server.offer(blocks.pin(), blocks)
      if (fate === 4) server.withdraw(i % 2 ? offer.offerId : 'other')
      const all = [...blocks.blocks.keys()]
      await failureOf(puller.pull(offer, all, target, controller.signal))
      await until(`release of ${i} (seed ${seed}, fate ${fate})`, () => blocks.openPins === 0)
      expect(blocks.doubleReleases).toBe(0)
      await puller.close()
    })
    await Promise.all(jobs)
    expect([server.heldBytes, server.offerCount]).toEqual([0, 0])
  })
})
