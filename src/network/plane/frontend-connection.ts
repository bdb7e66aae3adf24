/**
 * One frontend that is connected to a worker: its requests, and the worker's events for it.
 *
 * All tokens of one turn of the event loop (an engine step) go into one TOKENS frame, which is sent in one write
 * together with the newest load report of each rank.
 */
import type { Socket } from 'node:net'

import { BatonError, InFlightMap } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { Chunk } from '../../request/index.ts'
import {
  CARD_NEWS,
  SKIPPABLE,
  TAG,
  decodeCancel,
  decodeKvRelease,
  decodePlain,
  decodeRequest,
  encodeAnswer,
  encodeChunk,
  encodeError,
  encodeKvEvents,
  encodeLoad,
  encodePlain,
  forEachPair,
  protocolError,
  tagName,
} from '../../wire/index.ts'
import type { Hello, WorkerAnswers, WorkerHandler } from '../../wire/index.ts'
import { KvEventFeed } from './kv-event-feed.ts'
import { ReplyStream } from './reply-stream.ts'
import type { StreamOutlet } from './reply-stream.ts'
import type { SharedTurns } from '../link/shared-turns.ts'
import { WireSocket } from '../link/wire-socket.ts'
import type { WireSocketOptions } from '../link/wire-socket.ts'

/** A TOKENS frame is closed at this size; the receiver's limit is 1 MiB. */
const TOKENS_BYTES_MAX = 512 * 1024
/** Initial credit per stream, in items, for a frontend that sends no other. */
const WINDOW_ITEMS_DEFAULT = 1_024
/** Above this many unsent bytes, messages between frontends are dropped. */
const PEER_UNSENT_MAX = 8 * 1024 * 1024
/** As many offers as a worker holds at once. */
const OFFERS_MAX = 4_096

export interface FrontendConnectionOptions {
  readonly socket: WireSocketOptions
  readonly handler: WorkerHandler
  /** Absent: the worker answers requests only. */
  readonly answers?: WorkerAnswers | undefined
  /** A message of a frontend for the others, to be relayed. */
  readonly onPeer: (from: FrontendConnection, bytes: Uint8Array) => void
  readonly streamsMax: number
  /** Above this many unsent bytes KV events are dropped and replaced by a snapshot later. */
  readonly unsentBytesMax: number
  /** In which the snapshots for all frontends are written. */
  readonly turns: SharedTurns
  readonly isDraining: () => boolean
  /** `wasReady`: the handshake was complete. */
  readonly onClosed: (reason: BatonError, wasReady: boolean) => void
}

export class FrontendConnection implements StreamOutlet {
  readonly #options: FrontendConnectionOptions
  readonly #wire: WireSocket
  readonly #kvEvents: KvEventFeed
  readonly #streams = new InFlightMap<number, ReplyStream>()
  #windowItems = WINDOW_ITEMS_DEFAULT
  #wantsEvents = false
  #wantsPeers = false
  #wantsCards = false
  /** The card is sent with the next flush, once however often it was asked for. */
  #isCardDue = false
  #isAnswering = false
  #wasReady = false
  #isTokensOpen = false
  readonly #loads = new Map<number, LoadReport>()
  /** The newest KV offers that were sent, oldest first. */
  readonly #offers = new Set<string>()

  constructor(socket: Socket, options: FrontendConnectionOptions) {
    this.#options = options
    this.#wire = new WireSocket(socket, options.socket, {
      onReady: (peer) => this.#onReady(peer),
      onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes, start, end),
      onDrain: () => this.#kvEvents.onDrain(),
      onPong: (sentAtMs) => this.#kvEvents.onPong(sentAtMs),
      holdsPing: () => this.#kvEvents.isBusy,
      onClosed: (reason) => this.#onClosed(reason),
    })
    const { handler, turns, unsentBytesMax } = options
    this.#kvEvents = new KvEventFeed({
      wire: this.#wire,
      turns,
      unsentBytesMax,
      begin: handler.kvSnapshot?.bind(handler),
      write: (batch) => this.#writeKvEvents(batch),
    })
    this.#wire.beforeFlush = () => this.#writeRest()
  }

  get streamCount(): number {
    return this.#streams.size
  }

  get isReady(): boolean {
    return this.#wire.isReady
  }

  close(reason: BatonError): void {
    this.#wire.close(reason)
  }

  flush(): void {
    this.#wire.flush()
  }

  writeToken(streamId: number, tokenId: number): void {
    const { writer } = this.#wire
    if (!this.#isTokensOpen || writer.openBytes >= TOKENS_BYTES_MAX) {
      this.#closeTokens()
      writer.begin(TAG.TOKENS)
      this.#isTokensOpen = true
      this.#wire.flushSoon()
    }
    writer.u32(streamId).u32(tokenId)
  }

  writeChunk(streamId: number, chunk: Chunk): void {
    this.#closeTokens()
    encodeChunk(this.#wire.writer, streamId, chunk)
    this.#wire.flushSoon()
    const offer = chunk.prefillResult?.kvOffer
    if (offer !== undefined) this.#noteOffer(offer.offerId)
  }

  #noteOffer(offerId: string): void {
    this.#offers.add(offerId)
    if (this.#offers.size <= OFFERS_MAX) return
    const [oldest] = this.#offers
    if (oldest !== undefined) this.#offers.delete(oldest)
  }

  writeError(streamId: number, error: BatonError): void {
    this.#closeTokens()
    encodeError(this.#wire.writer, streamId, error)
    this.#wire.flushSoon()
  }

  streamEnded(streamId: number): void {
    this.#streams.delete(streamId)
  }

  sendKvEvents(batch: KvEventBatch): void {
    if (this.#wantsEvents && this.isReady) this.#kvEvents.send(batch)
  }

  #writeKvEvents(batch: KvEventBatch): void {
    this.#closeTokens()
    encodeKvEvents(this.#wire.writer, batch)
    this.#wire.flushSoon()
  }

  sendLoad(report: LoadReport): void {
    if (!this.#wantsEvents || !this.isReady) return
    this.#loads.set(report.dpRank, report)
    this.#wire.flushSoon()
  }

  cardChanged(): void {
    if (this.#wantsCards && this.isReady) this.#sendCard()
  }

  sendDraining(): void {
    if (!this.isReady) return
    this.#closeTokens()
    this.#wire.writer.begin((TAG.DRAINING | SKIPPABLE) >>> 0).end()
    this.#wire.flushSoon()
  }

  #writeRest(): void {
    this.#closeTokens()
    if (this.#isCardDue) this.#writeCard()
    if (this.#loads.size === 0) return
    for (const report of this.#loads.values()) encodeLoad(this.#wire.writer, report)
    this.#loads.clear()
  }

  #closeTokens(): void {
    if (!this.#isTokensOpen) return
    this.#isTokensOpen = false
    this.#wire.writer.end()
  }

  #onReady(peer: Hello): void {
    this.#wasReady = true
    if (peer.role !== 'frontend') {
      throw protocolError('message.unexpected', `a ${peer.role} must not connect to a worker`)
    }
    this.#windowItems = Math.max(1, peer.limits['streamWindowItems'] ?? WINDOW_ITEMS_DEFAULT)
    this.#wantsEvents = peer.capabilities.includes('kv-events')
    this.#wantsPeers = peer.capabilities.includes('peers')
    this.#wantsCards = peer.capabilities.includes(CARD_NEWS)
    if (this.#wantsEvents) this.#kvEvents.ask()
    for (const report of this.#options.handler.loadSnapshot?.() ?? []) this.sendLoad(report)
    if (this.#options.isDraining()) this.sendDraining()
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    switch (tag) {
      case TAG.REQUEST:
        this.#onRequest(bytes, start, end)
        break
      case TAG.CANCEL: {
        const { streamId, kind } = decodeCancel(bytes, start, end)
        this.#streams.get(streamId)?.cancel(kind)
        break
      }
      case TAG.CREDIT:
        forEachPair(bytes, start, end, (streamId, items) => {
          this.#streams.get(streamId)?.give(items)
        })
        break
      case TAG.KV_RELEASE:
        this.#options.handler.releaseKv?.(decodeKvRelease(bytes, start, end).offerId)
        break
      case TAG.KV_SNAPSHOT:
        if (this.#wantsEvents) this.#kvEvents.ask()
        break
      case TAG.CARD_ASK:
        this.#sendCard()
        break
      case TAG.COMMAND_ASK: {
        const question = decodePlain(bytes, start, end, 'a command')
        this.#answer(TAG.COMMAND, (answers) => answers.command(question))
        break
      }
      case TAG.TEXT_ASK: {
        const question = decodePlain(bytes, start, end, 'a question')
        this.#answer(TAG.TEXT, (answers) => answers.textPiece(question))
        break
      }
      case TAG.PEER:
        this.#options.onPeer(this, bytes.slice(start, end))
        break
      default:
        throw protocolError('message.unexpected', `a frontend must not send ${tagName(tag)}`)
    }
  }

  /** Relays a message of another frontend; dropped when this one reads too slowly. */
  sendPeer(payload: Uint8Array): void {
    if (!this.isReady || !this.#wantsPeers || this.#wire.unsentBytes > PEER_UNSENT_MAX) return
    this.#closeTokens()
    this.#wire.writer
      .begin((TAG.PEER | SKIPPABLE) >>> 0)
      .bytes(payload)
      .end()
    this.#wire.flushSoon()
  }

  /** Answers one question at a time; a second one at the same time is a protocol error. */
  #answer(tag: number, ask: (answers: WorkerAnswers) => Promise<unknown>): void {
    if (this.#isAnswering)
      throw protocolError(
        'message.unexpected',
        'a question was sent before the previous one was answered',
      )
    this.#isAnswering = true
    void this.#outcomeOf(ask).then((outcome) => {
      this.#isAnswering = false
      if (!this.isReady) return
      this.#closeTokens()
      encodeAnswer(this.#wire.writer, tag, outcome)
      this.#wire.flushSoon()
    })
  }

  async #outcomeOf(
    ask: (answers: WorkerAnswers) => Promise<unknown>,
  ): Promise<Parameters<typeof encodeAnswer>[2]> {
    const { answers } = this.#options
    try {
      if (answers !== undefined) return { answer: (await ask(answers)) ?? null }
      throw new BatonError('request.not_found', 'this worker answers requests only')
    } catch (thrown) {
      return { error: BatonError.from(thrown).toValue() }
    }
  }

  #sendCard(): void {
    this.#isCardDue = true
    this.#wire.flushSoon()
  }

  #writeCard(): void {
    this.#isCardDue = false
    const card = this.#options.handler.memberCard?.() ?? null
    this.#wire.writer.begin(TAG.CARD)
    if (card !== null) this.#wire.writer.bytes(encodePlain(card, 'a card'))
    this.#wire.writer.end()
  }

  #onRequest(bytes: Uint8Array, start: number, end: number): void {
    const { streamId, request } = decodeRequest(bytes, start, end)
    if (this.#streams.has(streamId)) {
      throw protocolError('message.unexpected', `the id of stream ${streamId} is already in use`)
    }
    const refusal = this.#refusal()
    if (refusal) {
      this.writeError(streamId, refusal)
      return
    }
    const credit = this.#windowItems
    const stream = new ReplyStream(this, { streamId, credit, backlogMax: 4 * credit })
    this.#streams.set(streamId, stream)
    stream.handle = this.#options.handler.serve(request, stream)
  }

  #refusal(): BatonError | null {
    const { streamsMax, isDraining } = this.#options
    if (isDraining()) {
      return new BatonError('backend.worker_draining', 'this worker is shutting down')
    }
    if (this.#streams.size < streamsMax) return null
    const text = `too many requests of one frontend at once: this worker accepts at most ${streamsMax}`
    return new BatonError('capacity.worker_overloaded', text, { data: { streamsMax } })
  }

  #onClosed(reason: BatonError): void {
    this.#kvEvents.close()
    const streams = this.#streams.values()
    this.#streams.clear()
    for (const stream of streams) stream.drop()
    for (const offerId of this.#offers) this.#options.handler.frontendLost?.(offerId)
    this.#offers.clear()
    this.#options.onClosed(reason, this.#wasReady)
  }
}
