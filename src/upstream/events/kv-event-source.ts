/**
 * The KV events of one rank of a foreign engine over ZeroMQ: subscribes, replays from the first available batch on,
 * and recovers from gaps and restarts.
 *
 * Owns: the two sockets, and when a replay is requested. The order of the batches is decided by `EventSequence`.
 */
import { Unpackr } from 'msgpackr'
import { BatonError } from '../../base/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import type { NumberedBatch } from './content-marks.ts'
import { EventSequence } from './event-sequence.ts'
import type { ReplayEnd } from './event-sequence.ts'
import { NO_BATCH, readForeignBatch } from './kv-event-batch.ts'
import { KvEventTranslator } from './kv-event-translator.ts'
import type { TranslatorCounters } from './kv-event-translator.ts'
import { UnusedEvents } from './unused-events.ts'
import { isIpv6 } from './zmq-client.ts'
import type { ZmqClientModule, ZmqDealer, ZmqSubscriber } from './zmq-client.ts'

export interface KvEventSourceOptions {
  readonly zmq: ZmqClientModule
  readonly dpRank: number
  readonly endpoint: string
  /** Null: missed batches cannot be replayed. */
  readonly replayEndpoint: string | null
  readonly topic: string
  readonly blockTokens: number
  readonly onEvents: (dpRank: number, events: readonly KvEvent[]) => void
  readonly onFault: (error: unknown) => void
  /** Called once per reason why events are not used. */
  readonly onUnused: (text: string) => void
  /** A replay without a batch for this time is given up. */
  readonly replayIdleMs?: number
  readonly replayPauseMs?: number
}

export interface KvEventSourceCounters extends TranslatorCounters {
  readonly batches: number
  readonly gaps: number
  readonly restarts: number
  readonly replays: number
  /** Gaps that could not be filled, so that the rank was cleared. */
  readonly losses: number
}

const REPLAY_IDLE_MS = 5000
const REPLAY_PAUSE_MS = 1000
const LAST = 0xffffffffffffffffn

export class KvEventSource {
  readonly #options: KvEventSourceOptions
  readonly #unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint', mapsAsObjects: true })
  readonly #sequence = new EventSequence({
    apply: (batch) => this.#apply(batch),
    clear: () => this.#clear(),
  })
  readonly #translator: KvEventTranslator
  readonly #unused: UnusedEvents
  #subscriber: ZmqSubscriber | null = null
  #dealer: ZmqDealer | null = null
  /** Increases with each lost connection, whose replay is no longer used. */
  #life = 0
  #isReplaying = false
  #isClosed = false
  #hasApplied = false
  #batches = 0
  #replays = 0

  constructor(options: KvEventSourceOptions) {
    this.#options = options
    const { dpRank, blockTokens, onUnused } = options
    this.#translator = new KvEventTranslator(blockTokens)
    this.#unused = new UnusedEvents(dpRank, blockTokens, onUnused)
  }

  get counters(): KvEventSourceCounters {
    return {
      ...this.#translator.counters,
      ...this.#sequence.counters,
      batches: this.#batches,
      replays: this.#replays,
    }
  }

  start(): void {
    const { zmq, endpoint, topic } = this.#options
    const subscriber = new zmq.Subscriber({
      linger: 0,
      receiveHighWaterMark: 0,
      ipv6: isIpv6(endpoint),
    })
    this.#subscriber = subscriber
    subscriber.events.on('connect', () => {
      this.#sequence.connected()
      void this.#replay()
    })
    subscriber.events.on('disconnect', () => this.#disconnected())
    subscriber.connect(endpoint)
    subscriber.subscribe(topic)
    void this.#listen(subscriber)
  }

  close(): void {
    this.#isClosed = true
    this.#subscriber?.close()
    this.#dealer?.close()
  }

  async #listen(subscriber: ZmqSubscriber): Promise<void> {
    try {
      for await (const frames of subscriber) {
        const batch = batchOf(frames)
        if (batch === null) continue
        this.#sequence.live(batch)
        if (this.#sequence.isAsking) void this.#replay()
      }
    } catch (error) {
      if (!this.#isClosed) this.#options.onFault(error)
    }
  }

  #disconnected(): void {
    if (this.#isClosed) return
    this.#life += 1
    this.#sequence.disconnected()
    // The replay that runs is of the publisher before.
    this.#dealer?.close()
  }

  #apply({ payload }: NumberedBatch): void {
    this.#batches += 1
    let decoded: unknown
    try {
      decoded = this.#unpackr.unpack(payload)
    } catch {
      decoded = null
    }
    const batch = readForeignBatch(decoded) ?? NO_BATCH
    const events = this.#translator.translate(batch)
    this.#unused.check(this.#translator.counters, batch.unreadable)
    this.#hasApplied = true
    if (events.length > 0) this.#options.onEvents(this.#options.dpRank, events)
  }

  /** Tells the router that its blocks of this rank are no longer valid. */
  #clear(): void {
    this.#translator.restart()
    if (this.#hasApplied) this.#options.onEvents(this.#options.dpRank, [{ kind: 'cleared' }])
    this.#hasApplied = false
  }

  /** Requests replays until none is needed. */
  async #replay(): Promise<void> {
    if (this.#isReplaying) return
    this.#isReplaying = true
    while (this.#sequence.isAsking && !this.#isClosed) {
      const life = this.#life
      const end = await this.#readReplay(life)
      if (end === 'failed' && life === this.#life)
        await pause(this.#options.replayPauseMs ?? REPLAY_PAUSE_MS)
      if (life === this.#life && !this.#isClosed) this.#sequence.replayEnded(end)
    }
    this.#isReplaying = false
  }

  async #readReplay(life: number): Promise<ReplayEnd> {
    const { zmq, replayEndpoint, replayIdleMs = REPLAY_IDLE_MS } = this.#options
    const first = this.#sequence.ask()
    if (replayEndpoint === null) return 'none'
    const dealer = new zmq.Dealer({
      linger: 0,
      ipv6: isIpv6(replayEndpoint),
      // A full queue would make the publisher leave out batches.
      receiveHighWaterMark: 0,
      receiveTimeout: replayIdleMs,
      sendTimeout: replayIdleMs,
    })
    this.#dealer = dealer
    this.#replays += 1
    try {
      dealer.connect(replayEndpoint)
      const from = Buffer.alloc(8)
      from.writeBigUInt64BE(BigInt(first))
      await dealer.send([Buffer.alloc(0), from])
      for (;;) {
        const frames = await dealer.receive()
        if (this.#isClosed || life !== this.#life) return 'failed'
        if (isEnd(frames)) return 'whole'
        const batch = batchOf(frames)
        if (batch !== null) this.#sequence.replayed(batch)
      }
    } catch (cause) {
      if (!this.#isClosed && life === this.#life) {
        const text = 'KV events could not be replayed'
        this.#options.onFault(new BatonError('backend.response_timeout', text, { cause }))
      }
      return 'failed'
    } finally {
      dealer.close()
    }
  }
}

/** With or without a topic, depending on the version. Null: it is no batch. */
function batchOf(frames: readonly Uint8Array[]): NumberedBatch | null {
  const payload = frames.at(-1)
  const number = frames.at(-2)
  if (payload === undefined || number?.length !== 8) return null
  return { sequence: Number(Buffer.from(number).readBigUInt64BE()), payload }
}

/** A replay ends with a number that no batch has. */
function isEnd(frames: readonly Uint8Array[]): boolean {
  const number = frames.at(-2)
  if (frames.at(-1)?.length !== 0 || number?.length !== 8) return false
  return Buffer.from(number).readBigUInt64BE() === LAST
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
