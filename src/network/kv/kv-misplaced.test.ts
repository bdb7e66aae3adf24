/** Chunks that a damaged frame moves from one pull to another on the same connection. */
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'

import type { KvOffer } from '../../request/index.ts'
import type { KvBlockReader, KvHold } from '../../wire/index.ts'
import { SKIPPABLE, TAG } from '../../wire/index.ts'
import { KvTcpClient } from './kv-tcp-client.ts'
import { KvTcpServer } from './kv-tcp-server.ts'
import { KitTarget } from '../../testing/kv-transport-kit.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const BLOCK_BYTES = 5_000

/** The blocks of one prompt: as many and as large as those of others, with other keys and other bytes. */
class Prompt implements KvBlockReader {
  readonly fingerprint = 'kit'
  readonly blockTokens = 16
  readonly blocks: readonly Uint8Array[]
  readonly #name: number
  readonly #blockKeys: Uint32Array

  constructor(name: number, count: number) {
    this.#name = name
    this.blocks = Array.from({ length: count }, (_, index) =>
      new Uint8Array(BLOCK_BYTES).fill(16 * name + index),
    )
    this.#blockKeys = Uint32Array.from({ length: 2 * count }, (_, half) =>
      half % 2 === 0 ? half / 2 : name,
    )
  }

  get(keyLow: number, keyHigh: number): Uint8Array | undefined {
    return keyHigh === this.#name ? this.blocks[keyLow] : undefined
  }

  pin(): KvHold {
    const count = this.blocks.length
    return {
      tokenCount: 16 * count,
      blockKeys: this.#blockKeys,
      kvBytes: count * BLOCK_BYTES,
      release: () => undefined,
    }
  }
}

/** Calls `change` with each whole frame, which it may change. */
function perFrame(change: (tag: number, payload: Buffer) => void, send: (frame: Buffer) => void) {
  let rest = Buffer.alloc(0)
  return (piece: Buffer): void => {
    rest = Buffer.concat([rest, piece])
    while (rest.length >= 8 && rest.length >= 8 + rest.readUInt32LE(0)) {
      const frame = rest.subarray(0, 8 + rest.readUInt32LE(0))
      change((frame.readUInt32LE(4) & ~SKIPPABLE) >>> 0, frame.subarray(8))
      send(frame)
      rest = rest.subarray(frame.length)
    }
  }
}

/** A tunnel in which the ids of pulls 2 and 3, which differ by one bit, are exchanged in every frame with `tag`. */
async function tunnelThatExchangesPulls(offer: KvOffer, tag: number): Promise<number> {
  const tunnel = createServer((near) => {
    const far = connect(offer.port, offer.host)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    const exchange = (seen: number, payload: Buffer): void => {
      const isPull = seen === tag && (payload[0] === 2 || payload[0] === 3)
      if (isPull) payload[0] = (payload[0] ?? 0) ^ 1
    }
    near.on(
      'data',
      perFrame(exchange, (frame) => far.write(frame)),
    )
    far.on(
      'data',
      perFrame(exchange, (frame) => near.write(frame)),
    )
  })
  await new Promise<void>((resolve) => tunnel.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => tunnel.close())
  return (tunnel.address() as AddressInfo).port
}

describe('a bit of the id of a pull that flips on the way', () => {
  it.each([
    ['in the blocks', TAG.KV_CHUNK],
    ['in the request for them', TAG.KV_PULL],
  ])('%s - no block of one prompt is stored as that of another', async (_, tag) => {
    const server = await KvTcpServer.listen({ chunkBytes: 2_000 })
    cleanups.push(() => server.close())
    const puller = new KvTcpClient({ stallMs: 500 })
    cleanups.push(() => puller.close())
    const prompts = [1, 2, 3].map((name) => new Prompt(name, 4))
    const offers = prompts.map((prompt) => server.offer(prompt.pin(), prompt))
    const port = await tunnelThatExchangesPulls(offers[0]!, tag)
    const targets = prompts.map(() => new KitTarget())
    const ends = await Promise.allSettled(
      offers.map((offer, i) => puller.pull({ ...offer, port }, [0, 1, 2, 3], targets[i]!)),
    )
    targets.forEach((target, i) => {
      for (const [index, bytes] of target.taken) {
        expect(Buffer.compare(bytes, prompts[i]!.blocks[index]!), `block ${index} of ${i}`).toBe(0)
      }
    })
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  })
})
