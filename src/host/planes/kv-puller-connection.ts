/**
 * The prefill side of one bulk connection: sends the blocks that the other side pulls.
 *
 * Several pulls share the connection chunk by chunk in turn. Block bytes go from the engine's store to the socket
 * uncopied; the socket's buffer is the back-pressure: when it is full, nothing is read from the store until it drains.
 * To a puller of the same machine they go through shared memory, and the free slots are the back-pressure.
 */
import type { Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import {
  TAG,
  decodeKvPull,
  decodeKvRelease,
  decodeNumber,
  encodeKvArena,
  encodeKvChunkHead,
  encodeKvPlaced,
  encodeKvPullEnd,
  protocolError,
  tagName,
} from '../../wire/index.ts'
import type { HeldOffer, Hello, KvChunkHead, KvOfferBook } from '../../wire/index.ts'
import { KvArenaWriter, machineCapability } from './kv-arena.ts'
import type { KvChunkSums } from './kv-chunk-sums.ts'
import { WireSocket } from './wire-socket.ts'
import type { WireSocketOptions } from './wire-socket.ts'

export interface KvPullerConnectionOptions {
  readonly socket: WireSocketOptions
  readonly book: KvOfferBook
  readonly chunkBytes: number
  readonly pullsMax: number
  /** Null: chunks go out without a checksum. */
  readonly sums: KvChunkSums | null
  /** Where shared memory is made for pullers of this machine; absent: bytes go through the socket. */
  readonly shmDir?: string | undefined
  readonly onClosed: () => void
}

/** Slots of shared memory per puller, of one chunk each. */
const ARENA_SLOTS = 16

interface Pull {
  readonly pullId: number
  readonly offer: HeldOffer
  readonly indexes: Uint32Array
  next: number
  /** Of the block that is under way. */
  block: Uint8Array | null
  offset: number
}

export class KvPullerConnection {
  readonly #options: KvPullerConnectionOptions
  readonly #wire: WireSocket
  #pulls: Pull[] = []
  #isBlocked = false
  /** Written since the socket was corked. */
  #corkedBytes = 0
  #arena: KvArenaWriter | null = null
  /** The puller has opened it. */
  #isArenaOpen = false

  constructor(socket: Socket, options: KvPullerConnectionOptions) {
    this.#options = options
    this.#wire = new WireSocket(socket, options.socket, {
      onReady: (peer) => this.#onReady(peer),
      onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes, start, end),
      onDrain: () => {
        if (this.#arena) return
        this.#isBlocked = false
        this.#pump()
      },
      onClosed: () => this.#onClosed(),
    })
  }

  close(reason: BatonError): void {
    this.#wire.close(reason)
  }

  #onReady(peer: Hello): void {
    if (peer.role !== 'kv-client') {
      throw protocolError('message.unexpected', `a ${peer.role} has no business at a KV server`)
    }
    const { shmDir, chunkBytes } = this.#options
    const capability = machineCapability(shmDir)
    if (shmDir === undefined || capability === null) return
    if (!peer.capabilities.includes(capability)) return
    this.#arena = new KvArenaWriter(shmDir, chunkBytes, ARENA_SLOTS)
    encodeKvArena(this.#wire.writer, this.#arena.message)
    this.#wire.flush()
    // Nothing is sent until the puller has said whether it could open it.
    this.#isBlocked = true
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    if (tag === TAG.KV_PULL) this.#onPull(bytes, start, end)
    else if (tag === TAG.KV_RELEASE) this.#onRelease(bytes, start, end)
    else if (tag === TAG.KV_TAKEN) this.#onTaken(decodeNumber(bytes, start, end))
    else if (tag === TAG.KV_ARENA_READY) this.#onArena(decodeNumber(bytes, start, end) === 1)
    else throw protocolError('message.unexpected', `a puller does not send ${tagName(tag)}`)
  }

  #onArena(isOpen: boolean): void {
    if (this.#isArenaOpen || !this.#arena) {
      throw protocolError('message.unexpected', 'no shared memory was offered')
    }
    this.#isArenaOpen = isOpen
    if (isOpen) this.#arena.unlink()
    else {
      this.#arena.close()
      this.#arena = null
    }
    this.#isBlocked = false
    this.#pump()
  }

  #onTaken(slot: number): void {
    if (this.#arena === null || !this.#isArenaOpen) return
    this.#arena.free(slot)
    this.#isBlocked = false
    this.#pump()
  }

  #onPull(bytes: Uint8Array, start: number, end: number): void {
    const { pullId, indexes, offerId } = decodeKvPull(bytes, start, end)
    const { book, pullsMax } = this.#options
    if (this.#pulls.length >= pullsMax) {
      throw protocolError('message.unexpected', `more than ${pullsMax} pulls at once`)
    }
    const offer = book.get(offerId)
    if (!offer) {
      this.#finish(pullId, new BatonError('kv.offer_gone', 'the offered KV is no longer held'))
      return
    }
    const blockCount = offer.pin.blockKeys.length / 2
    if (indexes.some((index) => index >= blockCount)) {
      throw protocolError('message.out_of_range', `the offer has ${blockCount} blocks only`)
    }
    book.touch(offerId)
    this.#pulls.push({ pullId, offer, indexes, next: 0, block: null, offset: 0 })
    this.#pump()
  }

  #onRelease(bytes: Uint8Array, start: number, end: number): void {
    const { kind, offerId } = decodeKvRelease(bytes, start, end)
    this.#pulls = this.#pulls.filter((pull) => pull.offer.offerId !== offerId)
    this.#options.book.release(offerId, kind)
  }

  /** Small blocks go out together, in writes of about one chunk. */
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

  /** Sends one chunk; false when the pull is over. */
  #sendChunk(pull: Pull): boolean {
    const { book, chunkBytes, sums } = this.#options
    const { offer, pullId } = pull
    if (book.get(offer.offerId) !== offer) return this.#fail(pull, 'the lease of this KV has ended')
    if (pull.block === null) {
      const index = pull.indexes[pull.next]
      if (index === undefined) {
        this.#finish(pullId)
        return false
      }
      const keys = offer.pin.blockKeys
      const block = offer.source.get(keys[2 * index] ?? 0, keys[2 * index + 1] ?? 0)
      if (!block) return this.#fail(pull, `block ${index} is no longer held`)
      pull.block = block
      pull.offset = 0
    }
    const { block, offset } = pull
    const chunk = block.subarray(offset, offset + chunkBytes)
    const index = pull.indexes[pull.next] ?? 0
    const checksum = sums?.of(block, offset) ?? 0
    this.#send({ pullId, index, blockBytes: block.length, offset, checksum }, chunk)
    pull.offset += chunk.length
    const isBlockDone = pull.offset >= block.length
    book.touch(offer.offerId, chunk.length, isBlockDone ? 1 : 0)
    if (isBlockDone) {
      pull.block = null
      pull.next += 1
    }
    if (pull.next < pull.indexes.length) return true
    // Together with its last chunk, so that the puller is woken once.
    this.#finish(pullId)
    return false
  }

  #send(head: KvChunkHead, chunk: Uint8Array): void {
    this.#corkedBytes += chunk.length
    const slot = this.#arena?.write(chunk) ?? null
    if (this.#arena !== null && slot !== null) {
      encodeKvPlaced(this.#wire.writer, { ...head, slot, length: chunk.length })
      this.#wire.flush()
      this.#isBlocked = !this.#arena.hasRoom
      return
    }
    this.#giveUpArena()
    encodeKvChunkHead(this.#wire.writer, head, chunk.length)
    this.#wire.flush()
    this.#isBlocked = !this.#wire.writeRaw(chunk)
  }

  /** Shared memory has filled up: from here on all goes through the socket. What was placed can still be read. */
  #giveUpArena(): void {
    this.#arena?.close()
    this.#arena = null
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
    // Between the last chunk and the acknowledgement there is no pull, but the offer waits for this peer all the same:
    // its lease ends that. What is under way gets the shorter grace.
    for (const pull of this.#pulls) this.#options.book.pullerLost(pull.offer.offerId)
    this.#pulls = []
    this.#isBlocked = true
    this.#arena?.close()
    this.#options.onClosed()
  }
}
