/**
 * The prefill side of one bulk connection: sends the blocks that the peer pulls.
 *
 * Several pulls share the connection, chunk by chunk in turn. The bytes of blocks go from the engine's store to the
 * socket without a copy. The socket's buffer provides back-pressure: while it is full, nothing is read from the
 * store.
 */
import type { Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import {
  KV_KEYED_SUMS,
  TAG,
  decodeKvPull,
  decodeKvRelease,
  encodeKvChunkHead,
  encodeKvPullEnd,
  keyedChecksum,
  protocolError,
  tagName,
} from '../../wire/index.ts'
import type { HeldOffer, Hello, KvChunkHead, KvOfferBook } from '../../wire/index.ts'
import type { KvChunkSums } from './kv-chunk-sums.ts'
import { WireSocket } from '../link/wire-socket.ts'
import type { WireSocketOptions } from '../link/wire-socket.ts'

export interface KvPullerConnectionOptions {
  readonly socket: WireSocketOptions
  readonly book: KvOfferBook
  readonly chunkBytes: number
  readonly pullsMax: number
  /** Null: chunks are sent without a checksum. */
  readonly sums: KvChunkSums | null
  readonly onClosed: () => void
}

interface Pull {
  readonly pullId: number
  readonly offer: HeldOffer
  readonly indexes: Uint32Array
  next: number
  /** The block that is being sent. */
  block: Uint8Array | null
  offset: number
}

export class KvPullerConnection {
  readonly #options: KvPullerConnectionOptions
  readonly #wire: WireSocket
  #pulls: Pull[] = []
  /** Pulls whose next block is still being computed. */
  #waiting: Pull[] = []
  #isBlocked = false
  /** Bytes written since the socket was corked. */
  #corkedBytes = 0
  /** True: the checksum includes the place of a chunk and the key of its block. */
  #sumsAreKeyed = false

  constructor(socket: Socket, options: KvPullerConnectionOptions) {
    this.#options = options
    this.#wire = new WireSocket(socket, options.socket, {
      onReady: (peer) => this.#onReady(peer),
      onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes, start, end),
      onDrain: () => {
        this.#isBlocked = false
        this.#pump()
      },
      onClosed: () => this.#onClosed(),
    })
  }

  close(reason: BatonError): void {
    this.#wire.close(reason)
  }

  /** More blocks of this offer are available, or it has ended. */
  goOn(offerId: string): void {
    const ready = this.#waiting.filter(({ offer }) => offer.offerId === offerId)
    if (ready.length === 0) return
    this.#waiting = this.#waiting.filter(({ offer }) => offer.offerId !== offerId)
    this.#pulls.push(...ready)
    this.#pump()
  }

  #onReady(peer: Hello): void {
    if (peer.role !== 'kv-client') {
      throw protocolError('message.unexpected', `a ${peer.role} must not connect to a KV server`)
    }
    this.#sumsAreKeyed = peer.capabilities.includes(KV_KEYED_SUMS)
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    if (tag === TAG.KV_PULL) this.#onPull(bytes, start, end)
    else if (tag === TAG.KV_RELEASE) this.#onRelease(bytes, start, end)
    else throw protocolError('message.unexpected', `a puller must not send ${tagName(tag)}`)
  }

  #onPull(bytes: Uint8Array, start: number, end: number): void {
    const { pullId, indexes, offerId } = decodeKvPull(bytes, start, end)
    const { book, pullsMax } = this.#options
    if (this.#pulls.length + this.#waiting.length >= pullsMax) {
      throw protocolError(
        'message.unexpected',
        `too many pulls at once: at most ${pullsMax} are allowed`,
      )
    }
    const offer = book.get(offerId)
    if (!offer) {
      this.#finish(pullId, new BatonError('kv.offer_gone', 'the offered KV is not held any more'))
      return
    }
    const blockCount = offer.pin.blockKeys.length / 2
    if (indexes.some((index) => index >= blockCount)) {
      throw protocolError('message.out_of_range', `the offer has only ${blockCount} blocks`)
    }
    book.touch(offerId)
    this.#pulls.push({ pullId, offer, indexes, next: 0, block: null, offset: 0 })
    this.#pump()
  }

  #onRelease(bytes: Uint8Array, start: number, end: number): void {
    const { kind, offerId } = decodeKvRelease(bytes, start, end)
    const isOther = ({ offer }: Pull): boolean => offer.offerId !== offerId
    this.#pulls = this.#pulls.filter(isOther)
    this.#waiting = this.#waiting.filter(isOther)
    this.#options.book.release(offerId, kind)
  }

  /** Small blocks are sent together, in writes of about one chunk. */
  #pump(): void {
    this.#wire.cork()
    this.#corkedBytes = 0
    while (!this.#isBlocked) {
      const pull = this.#pulls.shift()
      if (!pull) break
      const isMore = this.#sendChunk(pull)
      if (isMore) this.#pulls.push(pull)
      if (this.#corkedBytes < this.#options.chunkBytes) continue
      this.#wire.uncork()
      this.#wire.cork()
      this.#corkedBytes = 0
    }
    this.#wire.uncork()
  }

  /** Sends one chunk; false when the pull has ended, or waits. */
  #sendChunk(pull: Pull): boolean {
    const { book, chunkBytes, sums } = this.#options
    const { offer, pullId } = pull
    if (book.get(offer.offerId) !== offer)
      return this.#fail(pull, 'the lease of this KV has expired')
    if (pull.block === null) {
      const index = pull.indexes[pull.next]
      if (index === undefined) {
        this.#finish(pullId)
        return false
      }
      const keys = offer.pin.blockKeys
      const block = offer.source.get(keys[2 * index] ?? 0, keys[2 * index + 1] ?? 0)
      if (!block && offer.pin.isWhole === false) {
        this.#waiting.push(pull)
        return false
      }
      if (!block) return this.#fail(pull, `block ${index} is not held any more`)
      pull.block = block
      pull.offset = 0
    }
    const { block, offset } = pull
    const chunk = block.subarray(offset, offset + chunkBytes)
    const index = pull.indexes[pull.next] ?? 0
    const place = { index, blockBytes: block.length, offset }
    const plain = sums?.of(block, offset) ?? 0
    const isKeyed = sums !== null && this.#sumsAreKeyed
    const checksum = isKeyed ? keyedChecksum(plain, place, offer.pin.blockKeys) : plain
    this.#send({ pullId, ...place, checksum }, chunk)
    pull.offset += chunk.length
    const isBlockDone = pull.offset >= block.length
    book.touch(offer.offerId, chunk.length, isBlockDone ? 1 : 0)
    if (isBlockDone) {
      pull.block = null
      pull.next += 1
    }
    if (pull.next < pull.indexes.length) return true
    // Sent together with the last chunk, so that the puller is woken only once.
    this.#finish(pullId)
    return false
  }

  #send(head: KvChunkHead, chunk: Uint8Array): void {
    this.#corkedBytes += chunk.length
    encodeKvChunkHead(this.#wire.writer, head, chunk.length)
    this.#wire.flush()
    this.#isBlocked = !this.#wire.writeRaw(chunk)
  }

  #fail(pull: Pull, message: string): false {
    this.#finish(pull.pullId, new BatonError('kv.offer_gone', message))
    return false
  }

  #finish(pullId: number, error?: BatonError): void {
    encodeKvPullEnd(this.#wire.writer, error ? { pullId, error } : { pullId })
    this.#wire.flush()
  }

  #onClosed(): void {
    // Between the last chunk and the acknowledgement there is no pull, but the offer still waits for this peer until
    // its lease expires. Running pulls get the shorter grace period.
    for (const pull of [...this.#pulls, ...this.#waiting])
      this.#options.book.pullerLost(pull.offer.offerId)
    this.#pulls = []
    this.#waiting = []
    this.#isBlocked = true
    this.#options.onClosed()
  }
}
