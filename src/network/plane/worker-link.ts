/**
 * The frontend's connection to one worker: connects, reconnects after a loss, carries requests and their replies.
 *
 * connecting ──▶ ready ──▶ waiting (back-off) ──▶ connecting …        close ▶ closed, from any state
 *
 * A request that is sent while connecting waits for the connection (limited by the connect timeout). While waiting
 * for the next attempt it fails at once, so that migration can use another worker. A lost connection fails every
 * running reply.
 */
import type { Socket } from 'node:net'

import { addressText, BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { GenerateRequest, ReplySink, RequestHandle } from '../../request/index.ts'
import {
  KvEventGaps,
  TAG,
  decodeChunk,
  decodeError,
  decodeLoad,
  encodeCancel,
  encodeKvRelease,
  encodeRequest,
  protocolError,
  tagName,
} from '../../wire/index.ts'
import type { CancelKind, Hello } from '../../wire/index.ts'
import { clockOffsetMs } from './clock-offset.ts'
import type { FleetReports } from './plane-reports.ts'
import { KvEventInlet } from './kv-event-inlet.ts'
import { LiveReplies } from './live-replies.ts'
import { SentRequest } from './sent-request.ts'
import type { SharedTurns } from '../link/shared-turns.ts'
import { WireSocket } from '../link/wire-socket.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import { dialWire, wireFailure } from '../link/wire-tls.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface WorkerLinkOptions {
  readonly workerId: WorkerId
  readonly host: string
  readonly port: number
  readonly software: string
  readonly secret?: string | undefined
  readonly tls?: WireTls | undefined
  readonly timing?: WireTiming | undefined
  readonly connectTimeoutMs: number
  readonly backoffMsMin: number
  readonly backoffMsMax: number
  readonly streamWindowItems: number
  /** Most bytes of requests in memory that wait for a worker that does not read. */
  readonly unsentBytesMax: number
  readonly checksums: boolean
  readonly reports: FleetReports
  readonly turns: SharedTurns
}

type LinkState = 'connecting' | 'ready' | 'waiting' | 'closed'

const READ_BYTES = 64 * 1024
/** An offer that lasts longer keeps no connection open. */
const OFFER_MS_MAX = 60_000
/** Above this many unsent bytes, messages between frontends are dropped. */
const PEER_UNSENT_MAX = 8 * 1024 * 1024

const NO_HANDLE: RequestHandle = { cancel: () => undefined }

export class WorkerLink {
  readonly #options: WorkerLinkOptions
  readonly #replies: LiveReplies
  readonly #gaps: KvEventGaps
  readonly #kvEvents: KvEventInlet
  #state: LinkState = 'connecting'
  #wire: WireSocket | null = null
  #socket: Socket | null = null
  #timer: NodeJS.Timeout | null = null
  #backoffMs: number
  #isDraining = false
  #handsOn = false
  /** True: the worker has left discovery in order, so running replies may end, and no reconnect follows. */
  #isRetired = false
  /**
   * The reason that the worker is told after the handshake, before the connection is closed; null: it is accepted.
   */
  #goodbyeReason: BatonError | null = null
  #isReportedUp = false
  #isCaughtUp = false
  /** Until when the worker may hold KV that it has offered over this connection. */
  #offersEndMs = 0
  /** Sent after the handshake. */
  #waitingRequests: { streamId: number; request: GenerateRequest }[] = []
  #dialledEpochMs = 0
  #lastFailure = new BatonError('transport.cannot_connect', 'not connected yet')

  constructor(options: WorkerLinkOptions) {
    this.#options = options
    this.#backoffMs = options.backoffMsMin
    this.#replies = new LiveReplies({
      windowItems: options.streamWindowItems,
      wire: () => this.#wire,
      onFault: (error) => options.reports.onFault?.(error),
      onIdle: () => {
        if (this.#isRetired) this.#closeRetired()
      },
    })
    this.#gaps = new KvEventGaps({
      deliver: (batch) => options.reports.onKvEvents?.(options.workerId, batch),
      askSnapshot: () => this.askSnapshot(),
      wantsSnapshot: (dpRank) =>
        options.reports.wantsKvSnapshot?.(options.workerId, dpRank) === true,
    })
    this.#kvEvents = new KvEventInlet({
      turns: options.turns,
      take: (batch) => {
        if (!this.#isRetired) this.#gaps.take(batch)
      },
      pause: () => this.#wire?.pauseReading(),
      resume: () => this.#wire?.resumeReading(),
      onFault: (error) => this.#wire?.close(BatonError.from(error)),
    })
    this.#connect()
  }

  get state(): LinkState {
    return this.#state
  }

  get workerId(): WorkerId {
    return this.#options.workerId
  }

  get host(): string {
    return this.#options.host
  }

  get port(): number {
    return this.#options.port
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const refusal = this.#refusal()
    const streamId = refusal ? undefined : this.#replies.add(sink)
    if (streamId === undefined) {
      const full = new BatonError('capacity.exhausted', 'too many requests to one worker at once')
      sink.onError(refusal ?? full)
      return NO_HANDLE
    }
    if (this.#state === 'connecting') this.#waitingRequests.push({ streamId, request })
    else this.#write(streamId, request)
    return new SentRequest(this, streamId)
  }

  /** A connection that is not up yet starts with a snapshot anyway. */
  askSnapshot(): void {
    if (this.#state !== 'ready' || this.#wire === null) return
    this.#wire.writer.begin(TAG.KV_SNAPSHOT).end()
    this.#wire.flushSoon()
  }

  /**
   * Sends a message to all other frontends that are connected to the worker. False: the worker does not relay, or
   * reads too slowly.
   */
  sendPeer(payload: Uint8Array): boolean {
    if (this.#state !== 'ready' || this.#wire === null || !this.#handsOn) return false
    if (this.#wire.unsentBytes > PEER_UNSENT_MAX) return false
    this.#wire.writer.begin(TAG.PEER).bytes(payload).end()
    this.#wire.flushSoon()
    return true
  }

  /** Without a connection nothing is sent, and the offer ends with its lease. */
  releaseKv(offerId: string): void {
    if (this.#state !== 'ready' || this.#wire === null) return
    encodeKvRelease(this.#wire.writer, { kind: 'abandoned', offerId })
    this.#wire.flushSoon()
  }

  /** No new requests are sent, running replies end by themselves, then the connection closes. Idempotent. */
  retire(reason: BatonError): void {
    this.#isRetired = true
    this.#lastFailure = reason
    this.#reportDown(reason)
    if (this.#replies.size === 0 || this.#state === 'waiting') this.#closeRetired()
  }

  /** Stays open while an offer of the worker may still have to be released: it waits for its offers before it exits. */
  #closeRetired(): void {
    const leftMs = this.#state === 'ready' ? this.#offersEndMs - performance.now() : 0
    if (this.#timer) clearTimeout(this.#timer)
    if (leftMs <= 0) {
      this.close(this.#lastFailure)
      return
    }
    this.#timer = setTimeout(() => {
      if (this.#replies.size === 0) this.close(this.#lastFailure)
    }, leftMs)
    this.#timer.unref()
  }

  /** Sends `reason` in GOODBYE and closes the connection: after the handshake, and when the running replies have ended. */
  turnAway(reason: BatonError): void {
    this.#goodbyeReason = reason
    if (this.#state === 'ready') this.retire(reason)
  }

  /** Idempotent. Running replies end with `reason`. */
  close(reason: BatonError): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#reportDown(reason)
    if (this.#timer) clearTimeout(this.#timer)
    this.#kvEvents.clear()
    if (this.#wire) this.#wire.close(reason)
    else this.#socket?.destroy()
    this.#failAll(reason)
  }

  #refusal(): BatonError | undefined {
    if (this.#state === 'waiting' || this.#state === 'closed') return this.#lastFailure
    if (this.#isDraining || this.#isRetired) {
      return new BatonError('backend.worker_draining', 'the worker is shutting down')
    }
    if ((this.#wire?.unsentBytes ?? 0) <= this.#options.unsentBytesMax) return undefined
    return new BatonError('capacity.worker_overloaded', 'the worker does not read its requests')
  }

  #write(streamId: number, request: GenerateRequest): void {
    try {
      if (this.#wire === null) return
      encodeRequest(this.#wire.writer, streamId, request)
      this.#wire.flushSoon()
    } catch (error) {
      this.#replies.end(streamId, (sink) => sink.onError(BatonError.from(error)))
    }
  }

  /** For its requests only. */
  cancel(streamId: number, kind: CancelKind): void {
    if (!this.#replies.has(streamId)) return
    const position = this.#waitingRequests.findIndex((waiting) => waiting.streamId === streamId)
    if (position !== -1) this.#waitingRequests.splice(position, 1)
    else if (this.#wire) {
      encodeCancel(this.#wire.writer, streamId, kind)
      this.#wire.flushSoon()
    }
    // A killed reply ends now; a stopped one ends when the worker reports it.
    if (kind === 'kill' || position !== -1) {
      this.#replies.end(streamId, (sink) => sink.onChunk(finishChunk('cancelled')))
    }
  }

  #connect(): void {
    const { host, port, connectTimeoutMs, tls } = this.#options
    this.#state = 'connecting'
    this.#dialledEpochMs = Date.now()
    // A worker sends a small frame every few milliseconds, so one buffer is reused.
    const reader = {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      receive: (bytes: Uint8Array): void => this.#wire?.receive(bytes),
    }
    const onConnected = (): void => {
      socket.off('error', onError)
      this.#wire = this.#createWire(socket)
    }
    const socket = dialWire(tls, { host, port }, onConnected, reader)
    this.#socket = socket
    const fail = (error: BatonError): void => {
      socket.destroy()
      this.#onLost(error)
    }
    this.#timer = setTimeout(() => {
      const text = `no connection to ${addressText(host, port)} within ${connectTimeoutMs} ms`
      fail(new BatonError('transport.connection_timeout', text, { data: { connectTimeoutMs } }))
    }, connectTimeoutMs)
    const onError = (error: Error): void => {
      fail(wireFailure(error))
    }
    socket.once('error', onError)
  }

  #createWire(socket: Socket): WireSocket {
    const { software, secret, timing, streamWindowItems, checksums, reports } = this.#options
    return new WireSocket(
      socket,
      {
        side: 'initiator',
        self: {
          role: 'frontend',
          software,
          capabilities: reports.onPeer === undefined ? ['kv-events'] : ['kv-events', 'peers'],
          limits: { streamWindowItems },
        },
        secret,
        timing,
        areSummed: checksums,
      },
      {
        onReady: (peer) => this.#onReady(peer),
        onPong: () => this.#kvEvents.after(() => this.#onPong()),
        onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes, start, end),
        onClosed: (reason) => this.#onLost(reason),
      },
    )
  }

  #onReady(peer: Hello): void {
    const { workerId, backoffMsMin, reports } = this.#options
    if (peer.role !== 'worker' || (peer.workerId ?? workerId) !== workerId) {
      const text = `expected worker ${workerId} at this address, but ${peer.workerId ?? `a ${peer.role}`} answers`
      throw new BatonError('transport.cannot_connect', text)
    }
    if (this.#timer) clearTimeout(this.#timer)
    this.#state = 'ready'
    if (this.#goodbyeReason !== null) {
      // Reports that the worker can be connected to.
      this.#isReportedUp = true
      this.close(this.#goodbyeReason)
      return
    }
    this.#backoffMs = backoffMsMin
    this.#isDraining = false
    this.#handsOn = peer.capabilities.includes('peers')
    this.#gaps.reset()
    const waiting = this.#waitingRequests
    this.#waitingRequests = []
    for (const { streamId, request } of waiting) this.#write(streamId, request)
    this.#isReportedUp = true
    // A worker starts with its blocks and loads; the answer to this comes after them.
    this.#isCaughtUp = false
    this.#wire?.ping()
    reports.onConnected?.(workerId, clockOffsetMs(peer.epochMs, this.#dialledEpochMs, Date.now()))
  }

  /** Asks for a sign of life; resolves after `withinMs`, at once if there is no connection. */
  async answers(withinMs: number): Promise<boolean> {
    const wire = this.#wire
    if (this.#state !== 'ready' || wire === null) return false
    const askedMs = performance.now()
    wire.ping()
    await new Promise((resolve) => void setTimeout(resolve, withinMs).unref())
    return this.#wire === wire && this.#state === 'ready' && wire.heardAtMs >= askedMs
  }

  #onPong(): void {
    if (this.#isCaughtUp || !this.#isReportedUp) return
    this.#isCaughtUp = true
    this.#options.reports.onCaughtUp?.(this.#options.workerId)
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    const { workerId, reports } = this.#options
    switch (tag) {
      case TAG.TOKENS:
        this.#replies.tokens(bytes, start, end)
        break
      case TAG.CHUNK:
      case TAG.FINISH: {
        const { streamId, chunk } = decodeChunk(tag, bytes, start, end)
        const offer = chunk.prefillResult?.kvOffer
        if (offer !== undefined) {
          this.#offersEndMs = performance.now() + Math.min(offer.expiresInMs, OFFER_MS_MAX)
        }
        this.#replies.chunk(streamId, chunk)
        break
      }
      case TAG.ERROR: {
        const { streamId, error } = decodeError(bytes, start, end)
        this.#replies.end(streamId, (sink) => sink.onError(error))
        break
      }
      case TAG.KV_EVENTS:
        if (!this.#isRetired) this.#kvEvents.receive(bytes, start, end)
        break
      case TAG.LOAD:
        if (!this.#isRetired) reports.onLoad?.(workerId, decodeLoad(bytes, start, end))
        break
      case TAG.PEER:
        reports.onPeer?.(bytes.slice(start, end))
        break
      case TAG.DRAINING:
        this.#isDraining = true
        reports.onDraining?.(workerId)
        break
      default:
        throw protocolError('message.unexpected', `a worker must not send ${tagName(tag)}`)
    }
  }

  #failAll(reason: BatonError): void {
    this.#waitingRequests = []
    this.#replies.failAll(reason)
  }

  #onLost(reason: BatonError): void {
    if (this.#state === 'closed' || this.#state === 'waiting') return
    const { workerId, backoffMsMax } = this.#options
    const wasReady = this.#state === 'ready'
    if (this.#timer) clearTimeout(this.#timer)
    this.#kvEvents.clear()
    this.#wire = null
    if (this.#isRetired) {
      this.close(reason)
      return
    }
    this.#state = 'waiting'
    const code = wasReady ? reason.code : asConnectFailure(reason)
    this.#lastFailure = wasReady
      ? reason
      : new BatonError(code, `worker ${workerId}: ${reason.message}`, { cause: reason })
    this.#timer = setTimeout(() => this.#connect(), this.#backoffMs)
    this.#timer.unref()
    this.#backoffMs = Math.min(backoffMsMax, this.#backoffMs * 2)
    // The router is told first, so that requests which fail now are not sent here again.
    // The worker is named in the report already.
    if (wasReady) this.#reportDown(reason)
    else
      this.#options.reports.onConnectFailed?.(
        workerId,
        new BatonError(code, reason.message, { cause: reason }),
      )
    this.#failAll(this.#lastFailure)
  }

  #reportDown(reason: BatonError): void {
    if (!this.#isReportedUp) return
    this.#isReportedUp = false
    this.#options.reports.onDisconnected?.(this.#options.workerId, reason)
  }
}

function asConnectFailure(reason: BatonError): BatonError['code'] {
  return reason.code === 'transport.disconnected' ? 'transport.cannot_connect' : reason.code
}
