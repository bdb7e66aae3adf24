/**
 * What every KV transport must do, as named cases that throw on a violation.
 */
import { isDeepStrictEqual } from 'node:util'

import { BatonError } from '../base/index.ts'
import type { KvBlockReader, KvClient, KvHold, KvPullTarget, KvServer } from '../wire/index.ts'

export interface KvTransportUnderTest {
  readonly server: KvServer
  readonly client: KvClient
  /** Creates the client of another decode worker. */
  readonly createClient: () => KvClient
}

export interface KvTransportSettings {
  readonly leaseMs: number
  readonly graceMs: number
  readonly chunkBytes: number
}

export type KvTransportFactory = (settings: KvTransportSettings) => Promise<KvTransportUnderTest>

export interface KvTransportCase {
  readonly name: string
  run(create: KvTransportFactory): Promise<void>
}

/** Blocks in memory that count pins which were not released, or released twice. */
export class KitBlocks implements KvBlockReader {
  readonly fingerprint = 'kit'
  readonly blockTokens = 16
  readonly blocks = new Map<number, Uint8Array>()
  openPins = 0
  doubleReleases = 0

  /** Block i has `sizes[i]` bytes that depend on its index and on the position. */
  constructor(sizes: readonly number[]) {
    sizes.forEach((size, block) => {
      const bytes = new Uint8Array(size)
      for (let i = 0; i < size; i++) bytes[i] = (i * 31 + block * 7 + (i >>> 8)) & 0xff
      this.blocks.set(block, bytes)
    })
  }

  get(keyLow: number, keyHigh: number): Uint8Array | undefined {
    return keyHigh === 1 ? this.blocks.get(keyLow) : undefined
  }

  pin(): KvHold {
    this.openPins += 1
    let isReleased = false
    const keys = [...this.blocks.keys()].flatMap((block) => [block, 1])
    let kvBytes = 0
    for (const block of this.blocks.values()) kvBytes += block.length
    return {
      tokenCount: this.blocks.size * this.blockTokens,
      blockKeys: Uint32Array.from(keys),
      kvBytes,
      release: () => {
        if (isReleased) this.doubleReleases += 1
        else this.openPins -= 1
        isReleased = true
      },
    }
  }
}

/** Collects the blocks of a pull. */
export class KitTarget implements KvPullTarget {
  readonly taken = new Map<number, Uint8Array>()
  onTake: (index: number) => boolean = () => true
  put(index: number, bytes: Uint8Array): boolean {
    if (!this.onTake(index)) return false
    this.taken.set(index, bytes)
    return true
  }
}

function expectSame(what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`)
}

function expectBlocks(blocks: KitBlocks, target: KitTarget, indexes: readonly number[]): void {
  expectSame('blocks taken', [...target.taken.keys()].sort(byNumber), indexes)
  for (const index of indexes) {
    const [left, right] = [target.taken.get(index), blocks.blocks.get(index)]
    if (!left || !right || Buffer.compare(left, right) !== 0) {
      throw new Error(`block ${index} differs from the offered one`)
    }
  }
}

const byNumber = (left: number, right: number): number => left - right

async function failureOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'none'
  } catch (error) {
    return error instanceof BatonError ? error.code : String(error)
  }
}

/** Waits for a condition; the error names what is missing. */
export async function until(what: string, isTrue: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (isTrue()) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`${what}: still missing after 5 s`)
}

const SETTINGS: KvTransportSettings = { leaseMs: 10_000, graceMs: 50, chunkBytes: 1_000 }

function kvCase(
  name: string,
  body: (subject: KvTransportUnderTest) => Promise<void>,
  settings: Partial<KvTransportSettings> = {},
): KvTransportCase {
  return {
    name,
    run: async (create) => {
      const subject = await create({ ...SETTINGS, ...settings })
      try {
        await body(subject)
      } finally {
        await subject.client.close()
        await subject.server.close()
      }
      expectSame('held after close', subject.server.heldBytes, 0)
    },
  }
}

export const KV_TRANSPORT_CASES: readonly KvTransportCase[] = [
  kvCase('blocks of every size arrive complete, and the pin is released', async (subject) => {
    const { server, client } = subject
    const blocks = new KitBlocks([0, 1, 999, 1_000, 1_001, 100_000, 3])
    const target = new KitTarget()
    const offer = server.offer(blocks.pin(), blocks)
    expectSame('held', server.heldBytes, 103_004)
    const stats = await client.pull(offer, [0, 1, 2, 3, 4, 5, 6], target)
    expectBlocks(blocks, target, [0, 1, 2, 3, 4, 5, 6])
    expectSame('stats', [stats.blocks, stats.bytes, stats.resumed], [7, 103_004, 0])
    await until('release', () => blocks.openPins === 0)
    expectSame('held', [server.heldBytes, server.offerCount], [0, 0])
    expectSame('acknowledged', server.stats.released.acknowledged, 1)
  }),
  kvCase('only missing blocks are sent', async ({ server, client }) => {
    const blocks = new KitBlocks([500, 600, 700, 800])
    const target = new KitTarget()
    await client.pull(server.offer(blocks.pin(), blocks), [1, 3], target)
    expectBlocks(blocks, target, [1, 3])
    expectSame('sent', [server.stats.bytesSent, server.stats.blocksSent], [1_400, 2])
  }),
  kvCase('if no block is missing the offer is only acknowledged', async ({ server, client }) => {
    const blocks = new KitBlocks([500])
    await client.pull(server.offer(blocks.pin(), blocks), [], new KitTarget())
    await until('release', () => blocks.openPins === 0)
    expectSame('sent', server.stats.bytesSent, 0)
    expectSame('acknowledged', server.stats.released.acknowledged, 1)
  }),
  kvCase('many concurrent pulls share the connection', async ({ server, client, createClient }) => {
    const other = createClient()
    const jobs = Array.from({ length: 12 }, (_, i) => {
      const blocks = new KitBlocks([i * 300, 20_000, i])
      const target = new KitTarget()
      const offer = server.offer(blocks.pin(), blocks)
      return { blocks, target, done: (i % 3 ? client : other).pull(offer, [0, 1, 2], target) }
    })
    for (const { blocks, target, done } of jobs) {
      await done
      expectBlocks(blocks, target, [0, 1, 2])
    }
    await until('all released', () => server.offerCount === 0)
    await other.close()
  }),
  kvCase('an offer that was withdrawn or never made is refused', async ({ server, client }) => {
    const blocks = new KitBlocks([500])
    const offer = server.offer(blocks.pin(), blocks)
    server.withdraw(offer.offerId)
    server.withdraw(offer.offerId)
    expectSame('pins', [blocks.openPins, blocks.doubleReleases], [0, 0])
    const target = new KitTarget()
    expectSame('error', await failureOf(client.pull(offer, [0], target)), 'kv.offer_gone')
    const foreign = { ...offer, offerId: 'no-such-offer' }
    expectSame('error', await failureOf(client.pull(foreign, [0], target)), 'kv.offer_gone')
    expectSame('taken', target.taken.size, 0)
  }),
  kvCase('a block that the store has lost ends the pull', async ({ server, client }) => {
    const blocks = new KitBlocks([500, 500])
    const offer = server.offer(blocks.pin(), blocks)
    blocks.blocks.delete(1)
    const failure = await failureOf(client.pull(offer, [0, 1], new KitTarget()))
    expectSame('error', failure, 'kv.offer_gone')
  }),
  kvCase('a puller without memory abandons the offer', async ({ server, client }) => {
    const blocks = new KitBlocks([5_000, 5_000, 5_000])
    const target = new KitTarget()
    target.onTake = (index) => index < 1
    const offer = server.offer(blocks.pin(), blocks)
    const failure = await failureOf(client.pull(offer, [0, 1, 2], target))
    expectSame('error', failure, 'kv.transfer_failed')
    await until('release', () => blocks.openPins === 0)
    expectSame('abandoned', server.stats.released.abandoned, 1)
    // The connection is usable for the next pull.
    const again = new KitTarget()
    await client.pull(server.offer(blocks.pin(), blocks), [0, 1, 2], again)
    expectBlocks(blocks, again, [0, 1, 2])
  }),
  kvCase('a block that the puller refuses ends the pull with its error', async (subject) => {
    const { server, client } = subject
    const blocks = new KitBlocks([5_000])
    const put = (): boolean => {
      throw new BatonError('kv.block_refused', 'of another model')
    }
    const pulled = client.pull(server.offer(blocks.pin(), blocks), [0], { put })
    expectSame('error', await failureOf(pulled), 'kv.block_refused')
    await until('release', () => blocks.openPins === 0)
  }),
  kvCase('a cancelled pull ends at once and releases the pin', async ({ server, client }) => {
    const blocks = new KitBlocks(Array.from({ length: 64 }, () => 100_000))
    const target = new KitTarget()
    const controller = new AbortController()
    target.onTake = () => {
      controller.abort()
      return true
    }
    const offer = server.offer(blocks.pin(), blocks)
    const all = [...blocks.blocks.keys()]
    const failure = await failureOf(client.pull(offer, all, target, controller.signal))
    expectSame('error', failure, 'request.cancelled')
    await until('release', () => blocks.openPins === 0)
    const early = await failureOf(client.pull(offer, all, target, controller.signal))
    expectSame('error of a pull cancelled before', early, 'request.cancelled')
  }),
  kvCase('abandon releases the pin without a pull', async ({ server, client }) => {
    const blocks = new KitBlocks([500])
    client.abandon(server.offer(blocks.pin(), blocks))
    await until('release', () => blocks.openPins === 0)
    expectSame('abandoned', server.stats.released.abandoned, 1)
  }),
  kvCase(
    'an offer that is not pulled ends with its lease',
    async ({ server }) => {
      const blocks = new KitBlocks([500])
      let reason = ''
      server.offer(blocks.pin(), blocks, { onReleased: (why) => (reason = why) })
      await until('release', () => blocks.openPins === 0)
      expectSame('reason', [reason, server.stats.released['lease-ended']], ['lease-ended', 1])
    },
    { leaseMs: 30 },
  ),
  kvCase(
    'a puller that dies during a pull - the pin is released after the grace period',
    async (subject) => {
      const { server, createClient } = subject
      const blocks = new KitBlocks(Array.from({ length: 200 }, () => 200_000))
      const mortal = createClient()
      const target = new KitTarget()
      target.onTake = () => {
        void mortal.close()
        return true
      }
      const offer = server.offer(blocks.pin(), blocks)
      const failure = await failureOf(mortal.pull(offer, [...blocks.blocks.keys()], target))
      expectSame('error', failure, 'transport.disconnected')
      await until('release', () => blocks.openPins === 0)
      expectSame('reasons', server.stats.released['puller-died'], 1)
    },
  ),
  kvCase(
    'a server that closes releases all pins and the pull fails',
    async ({ server, client }) => {
      const blocks = new KitBlocks(Array.from({ length: 100 }, () => 200_000))
      const target = new KitTarget()
      target.onTake = () => {
        void server.close()
        return true
      }
      const offer = server.offer(blocks.pin(), blocks)
      const failure = await failureOf(client.pull(offer, [...blocks.blocks.keys()], target))
      if (failure === 'none') throw new Error('a pull from a closed server succeeded')
      expectSame('pins', [blocks.openPins, blocks.doubleReleases], [0, 0])
    },
  ),
]
