import { expect, it } from 'vitest'

import { randomInt, seededRandom } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { KvBlockStore } from '../../engine/index.ts'
import type { KvOffer } from '../../request/index.ts'
import { KvOfferBook, kvChecksum } from '../../wire/index.ts'
import type { HeldOffer } from '../../wire/index.ts'
import { KvPull } from './kv-pull.ts'

/** A clock that the test advances. */
class StepClock implements Clock {
  #now = 0
  readonly #timers = new Map<number, { readonly at: number; readonly fire: () => void }>()
  #last = 0

  nowMs(): number {
    return this.#now
  }

  epochMs(): number {
    return this.#now
  }

  after(delayMs: number, fire: () => void): { cancel(): void } {
    const id = ++this.#last
    this.#timers.set(id, { at: this.#now + delayMs, fire })
    return { cancel: () => void this.#timers.delete(id) }
  }

  get timerCount(): number {
    return this.#timers.size
  }

  advance(ms: number): void {
    this.#now += ms
    for (const [id, { at, fire }] of this.#timers) {
      if (at > this.#now) continue
      this.#timers.delete(id)
      fire()
    }
  }
}

const TOKENS = 4
const BYTES_PER_TOKEN = 8
const CHUNK = 20

const createStore = (capacityBlocks: number): KvBlockStore =>
  new KvBlockStore({
    fingerprint: 'f',
    blockTokens: TOKENS,
    bytesPerToken: BYTES_PER_TOKEN,
    capacityBytes: capacityBlocks * TOKENS * BYTES_PER_TOKEN,
  })

/** The expected byte of a block. */
const byteOf = (low: number, high: number, at: number): number =>
  (low ^ (high * 31) ^ (at * 7)) & 0xff

function isRight(store: KvBlockStore, keys: Uint32Array): boolean {
  for (let i = 0; i < keys.length; i += 2) {
    const [low, high] = [keys[i] ?? 0, keys[i + 1] ?? 0]
    if (store.get(low, high)?.every((byte, at) => byte === byteOf(low, high, at)) === false) {
      return false
    }
  }
  return true
}

/** A running transfer with the real book, pull and stores; only the socket between them is replaced. */
interface Transfer {
  readonly offer: KvOffer
  readonly held: HeldOffer
  readonly pull: KvPull
  readonly indexes: number[]
  offset: number
}

const SEED = Date.now() % 1e9

it(`10,000 KV transfers that die at random, seed ${SEED} - nothing is left, and no byte is wrong`, () => {
  const random = seededRandom(SEED)
  const clock = new StepClock()
  let ids = 0
  const book = new KvOfferBook({
    clock,
    createOfferId: () => `o${++ids}`,
    leaseMs: 1_000,
    graceMs: 100,
    offersMax: 1_000,
  })
  const [prefill, decode] = [createStore(4_000), createStore(60)]
  const live: Transfer[] = []

  const begin = (): void => {
    const tokenIds = Uint32Array.from({ length: 1 + TOKENS * (1 + randomInt(random, 5)) }, () =>
      randomInt(random, 3),
    )
    const keys = prefill.keysOf(tokenIds, tokenIds.length - 1)
    for (let i = 0; i < keys.length; i += 2) {
      const [low, high] = [keys[i] ?? 0, keys[i + 1] ?? 0]
      const block = new Uint8Array(TOKENS * BYTES_PER_TOKEN)
      prefill.put(
        low,
        high,
        TOKENS,
        block.map((_, at) => byteOf(low, high, at)),
      )
    }
    const offer = book.offer({ host: 'h', port: 1 }, prefill.pin(tokenIds), prefill)
    const held = book.get(offer.offerId)
    const missing = decode.missing(offer.blockKeys)
    const pull = new KvPull({
      pullId: 1,
      offer,
      missing,
      target: {
        put: (i, bytes) =>
          decode.put(offer.blockKeys[2 * i] ?? 0, offer.blockKeys[2 * i + 1] ?? 0, TOKENS, bytes),
        allocate: (byteLength) => decode.allocate(byteLength),
      },
    })
    if (held) live.push({ offer, held, pull, indexes: missing, offset: 0 })
  }

  /** Transfers one chunk; true when the transfer has ended. */
  const move = (transfer: Transfer): boolean => {
    const { offer, held, pull, indexes } = transfer
    const [index] = indexes
    if (index === undefined) {
      expect(pull.isComplete).toBe(true)
      book.release(offer.offerId, 'acknowledged')
      return true
    }
    if (book.get(offer.offerId) !== held) return true
    const keys = offer.blockKeys
    const block = held.source.get(keys[2 * index] ?? 0, keys[2 * index + 1] ?? 0)
    if (block === undefined) throw new Error(`a pinned block is gone, seed ${SEED}`)
    const { offset } = transfer
    const chunk = block.subarray(offset, offset + CHUNK)
    const head = { pullId: 1, index, blockBytes: block.length, offset, checksum: kvChecksum(chunk) }
    const place = pull.place(head, chunk.length)
    place.set(chunk)
    pull.take(head, place, (_, bytes) => kvChecksum(bytes))
    book.touch(offer.offerId, chunk.length)
    transfer.offset += chunk.length
    if (transfer.offset < block.length) return false
    transfer.offset = 0
    indexes.shift()
    return false
  }

  const fates: readonly ((transfer: Transfer) => boolean)[] = [
    // The connection is lost, and the puller returns for the missing blocks.
    (transfer) => {
      transfer.pull.restart()
      transfer.offset = 0
      book.pullerLost(transfer.offer.offerId)
      return false
    },
    // The puller dies, gives up, or the request is cancelled at the prefill side.
    ({ offer }) => (book.pullerLost(offer.offerId), true),
    ({ offer }) => (book.release(offer.offerId, 'abandoned'), true),
    ({ offer }) => (book.release(offer.offerId, 'withdrawn'), true),
    // Silence until the lease has expired.
    () => (clock.advance(randomInt(random, 300)), false),
  ]

  let begun = 0
  while (begun < 10_000 || live.length > 0) {
    if (begun < 10_000 && live.length < 30) {
      begun += 1
      begin()
    }
    const at = randomInt(random, live.length)
    const transfer = live[at]
    if (transfer === undefined) continue
    const fate = randomInt(random, 12) === 0 ? fates[randomInt(random, fates.length)] : undefined
    if (fate?.(transfer) === true || move(transfer)) {
      live.splice(at, 1)
      expect(isRight(decode, transfer.offer.blockKeys), `seed ${SEED}`).toBe(true)
    }
  }
  clock.advance(10_000)
  expect([book.heldBytes, book.count, clock.timerCount], `seed ${SEED}`).toEqual([0, 0, 0])
  expect([prefill.pinnedBytes, decode.pinnedBytes], `seed ${SEED}`).toEqual([0, 0])
  const total = Object.values(book.stats.released).reduce((sum, count) => sum + count, 0)
  expect(total).toBe(10_000)
})
