/**
 * The decode side's bulk connection to one prefill worker: opened on first use, shared by all pulls from it, opened
 * again when it breaks during a pull, closed when idle.
 *
 * After a break a pull continues with the missing blocks, at most `RESUMES_MAX` times; a pull without progress for
 * `stallMs` fails. The socket reads the bytes of a chunk directly into their block; only bytes that arrive together
 * with the head of a chunk are copied.
 */
import type { Socket } from 'node:net'

import { addressText, BatonError } from '../../base/index.ts'
import {
  KV_KEYED_SUMS,
  KV_UNCHECKED,
  TAG,
  decodeKvPullEnd,
  encodeKvPull,
  encodeKvRelease,
  kvChecksum,
  keyedChecksum,
  protocolError,
  tagName,
} from '../../wire/index.ts'
import type { Hello, KvChunkHead, KvReleaseKind } from '../../wire/index.ts'
import { KvChunkInlet } from './kv-chunk-inlet.ts'
import type { ChunkSum, KvPull } from './kv-pull.ts'
import { WireSocket } from '../link/wire-socket.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import { dialWire, wireFailure } from '../link/wire-tls.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface KvPeerOptions {
  readonly host: string
  readonly port: number
  readonly software: string
  readonly secret?: string | undefined
  readonly tls?: WireTls | undefined
  readonly timing?: WireTiming | undefined
  readonly connectTimeoutMs: number
  readonly stallMs: number
  readonly idleMs: number
  readonly onIdle: () => void
}

interface Running {
  readonly pull: KvPull
  readonly settle: (error?: BatonError) => void
}

const RESUMES_MAX = 3
/** Read buffer for frames and heads of chunks. Small, because bytes that follow a head in it must be copied. */
const READ_BYTES = 4 * 1024

export class KvPeer {
  readonly #options: KvPeerOptions
  readonly #running = new Map<number, Running>()
  readonly #watch: NodeJS.Timeout
  #releases: { kind: KvReleaseKind; offerId: string }[] = []
  #wire: WireSocket | null = null
  #socket: Socket | null = null
  #isReady = false
  #sumOf: ChunkSum | null = null
  #isClosed = false
  #connectingSinceMs = 0
  #usedAtMs = performance.now()
  readonly #inlet = new KvChunkInlet({
    placeOf: (head, length) => this.#placeOf(head, length),
    onChunk: (head, chunk) => this.#takeChunk(head, chunk),
  })

  constructor(options: KvPeerOptions) {
    this.#options = options
    this.#watch = setInterval(() => this.#onWatch(), Math.min(500, options.stallMs / 2))
    this.#watch.unref()
  }

  /** Resolves after every block was received and acknowledged. */
  async run(pull: KvPull, signal: AbortSignal | undefined): Promise<void> {
    const finished = new Promise<void>((resolve, reject) => {
      this.#running.set(pull.pullId, {
        pull,
        settle: (error) => (error ? reject(error) : resolve()),
      })
    })
    const onAbort = (): void => {
      this.#fail(pull, new BatonError('request.cancelled', 'the KV pull was cancelled'))
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal?.aborted) onAbort()
      else if (this.#isReady) this.#ask(pull)
      else this.#connect()
      await finished
      this.release('acknowledged', pull.offer.offerId)
    } catch (error) {
      const isLost = error instanceof BatonError && error.code === 'kv.offer_gone'
      if (!isLost) this.release('abandoned', pull.offer.offerId)
      throw error
    } finally {
      signal?.removeEventListener('abort', onAbort)
      this.#running.delete(pull.pullId)
    }
  }

  /** Best effort: when the peer cannot be told, its lease expires by itself. */
  release(kind: KvReleaseKind, offerId: string): void {
    if (this.#isClosed) return
    this.#usedAtMs = performance.now()
    if (this.#isReady && this.#wire) {
      // Sent after data that waits for the pull.
      encodeKvRelease(this.#wire.writer, { kind, offerId })
      this.#wire.flushSoon()
      return
    }
    this.#releases.push({ kind, offerId })
    this.#connect()
  }

  close(reason: BatonError): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#watch)
    for (const { settle } of this.#running.values()) settle(reason)
    this.#running.clear()
    if (this.#wire) this.#wire.close(reason)
    else this.#socket?.destroy()
  }

  #connect(): void {
    if (this.#socket || this.#isClosed) return
    const { host, port, tls } = this.#options
    this.#connectingSinceMs = performance.now()
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    const reader = {
      // Called before every read: inside a chunk the kernel writes the bytes directly to their place.
      buffer: (): Uint8Array => {
        const rest = this.#wire ? this.#inlet.rest : null
        return rest !== null && rest.length > 0 ? rest : buffer
      },
      receive: (bytes: Uint8Array): void => this.#wire?.receive(bytes),
    }
    const onConnected = (): void => {
      socket.off('error', onError)
      this.#wire = this.#createWire(socket)
    }
    const socket = dialWire(tls, { host, port }, onConnected, reader)
    this.#socket = socket
    const onError = (error: Error): void => this.#onLost(wireFailure(error).message)
    socket.once('error', onError)
  }

  #createWire(socket: Socket): WireSocket {
    const { software, secret, timing } = this.#options
    return new WireSocket(
      socket,
      {
        side: 'initiator',
        self: {
          role: 'kv-client',
          software,
          capabilities: [KV_KEYED_SUMS],
          limits: {},
        },
        secret,
        timing,
        streamedTag: TAG.KV_CHUNK,
        // KV has its own, which are computed ahead.
        areSummed: false,
      },
      {
        onReady: (peer) => this.#onReady(peer),
        onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes, start, end),
        onPart: (_tag, length, offset, bytes, start, end) => {
          this.#inlet.onPart(length, offset, bytes, start, end)
        },
        onClosed: (reason) => this.#onLost(reason.message, reason),
      },
    )
  }

  #onReady(peer: Hello): void {
    if (peer.role !== 'kv-server') {
      throw protocolError(
        'message.unexpected',
        `a ${peer.role} answers at the address of the KV offer`,
      )
    }
    this.#isReady = true
    this.#sumOf = chunkSumOf(peer)
    for (const { kind, offerId } of this.#releases.splice(0)) this.release(kind, offerId)
    for (const { pull } of this.#running.values()) this.#ask(pull)
  }

  #ask(pull: KvPull): void {
    if (!this.#wire) return
    this.#usedAtMs = performance.now()
    const { pullId, missing: indexes, offer } = pull
    encodeKvPull(this.#wire.writer, { pullId, flags: 0, indexes, offerId: offer.offerId })
    this.#wire.flush()
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    if (tag === TAG.KV_PULL_END) this.#onPullEnd(bytes, start, end)
    else throw protocolError('message.unexpected', `a KV server must not send ${tagName(tag)}`)
  }

  #onPullEnd(bytes: Uint8Array, start: number, end: number): void {
    const { pullId, error } = decodeKvPullEnd(bytes, start, end)
    const running = this.#running.get(pullId)
    // A completed pull has ended already.
    if (!running) return
    const early = new BatonError(
      'kv.transfer_failed',
      'the peer ended the pull before it had sent all blocks',
    )
    this.#end(running, error ?? early)
  }

  /** Null for a pull that has ended on this side: its bytes are skipped. */
  #placeOf(head: KvChunkHead, length: number): Uint8Array | null {
    const running = this.#running.get(head.pullId)
    if (!running) return null
    try {
      return running.pull.place(head, length)
    } catch (error) {
      this.#fail(running.pull, BatonError.from(error))
      return null
    }
  }

  #takeChunk(head: KvChunkHead, chunk: Uint8Array): void {
    const running = this.#running.get(head.pullId)
    if (!running) return
    this.#usedAtMs = performance.now()
    try {
      running.pull.take(head, chunk, this.#sumOf)
      if (running.pull.isComplete) this.#end(running)
    } catch (error) {
      this.#fail(running.pull, BatonError.from(error, 'kv.transfer_failed'))
    }
  }

  #fail(pull: KvPull, error: BatonError): void {
    const running = this.#running.get(pull.pullId)
    if (running) this.#end(running, error)
  }

  #end({ pull, settle }: Running, error?: BatonError): void {
    this.#running.delete(pull.pullId)
    settle(error)
  }

  #onLost(message: string, cause?: BatonError): void {
    this.#wire = null
    this.#socket?.destroy()
    this.#socket = null
    this.#isReady = false
    this.#inlet.reset()
    for (const { pull } of this.#running.values()) {
      if (pull.resumed < RESUMES_MAX && !this.#isClosed) {
        pull.restart()
      } else {
        const { host, port } = this.#options
        const text = `the KV connection to ${addressText(host, port)} was lost: ${message}`
        this.#fail(pull, new BatonError('kv.transfer_failed', text, { cause }))
      }
    }
    if (this.#running.size > 0) setTimeout(() => this.#connect(), 50)
    else this.#releases = []
  }

  #onWatch(): void {
    const { connectTimeoutMs, stallMs, idleMs, onIdle } = this.#options
    const now = performance.now()
    if (this.#socket && !this.#isReady && now - this.#connectingSinceMs > connectTimeoutMs) {
      if (this.#wire) {
        this.#wire.close(new BatonError('transport.connection_timeout', 'the handshake timed out'))
      } else this.#onLost('the connection timed out')
    }
    for (const { pull } of this.#running.values()) {
      if (now - pull.progressAtMs <= stallMs) continue
      this.#fail(pull, new BatonError('kv.transfer_failed', `no KV was received for ${stallMs} ms`))
    }
    if (this.#running.size === 0 && now - this.#usedAtMs > idleMs) {
      this.close(new BatonError('transport.disconnected', 'idle'))
      onIdle()
    }
  }
}

/** As the server computes them: with place and key, without them (0.1.0), or not at all. */
function chunkSumOf({ capabilities }: Hello): ChunkSum | null {
  if (capabilities.includes(KV_UNCHECKED)) return null
  if (!capabilities.includes(KV_KEYED_SUMS)) return (_, chunk) => kvChecksum(chunk)
  return (head, chunk, blockKeys) => keyedChecksum(kvChecksum(chunk), head, blockKeys)
}
