/**
 * The KV events of one rank of a foreign engine over ZeroMQ: subscribes, replays from the first available batch on,
 * and recovers from gaps and restarts.
 *
 * Owns: the two sockets and the state of the stream. Batches that arrive during a replay wait, up to a limit. A gap
 * that cannot be replayed clears the rank, so that the router never uses an index with missing events.
 */
import { Unpackr } from 'msgpackr'
import { BatonError } from '../../base/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import { EventSequence } from './event-sequence.ts'
import { readForeignBatch } from './kv-event-batch.ts'
import { KvEventTranslator } from './kv-event-translator.ts'
import type { TranslatorCounters } from './kv-event-translator.ts'
import type { ZmqClientModule, ZmqSubscriber } from './zmq-client.ts'

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

interface WaitingBatch {
  readonly sequence: number
  readonly payload: Uint8Array
}

const REPLAY_IDLE_MS = 5000
const REPLAY_PAUSE_MS = 1000
const WAITING_MAX = 10_000
const LAST = 0xffffffffffffffffn

export class KvEventSource {
  readonly #options: KvEventSourceOptions
  readonly #unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint', mapsAsObjects: true })
  readonly #sequence = new EventSequence()
  readonly #waiting: WaitingBatch[] = []
  readonly #translator: KvEventTranslator
  #subscriber: ZmqSubscriber | null = null
  #isReplaying = false
  #isClosed = false
  #hasApplied = false
  #batches = 0
  #gaps = 0
  #restarts = 0
  #replays = 0
  #losses = 0

  constructor(options: KvEventSourceOptions) {
    this.#options = options
    this.#translator = new KvEventTranslator(options.blockTokens)
  }

  get counters(): KvEventSourceCounters {
    return {
      ...this.#translator.counters,
      batches: this.#batches,
      gaps: this.#gaps,
      restarts: this.#restarts,
      replays: this.#replays,
      losses: this.#losses,
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
    subscriber.events.on('connect', () => void this.#replay())
    subscriber.events.on('disconnect', () => this.#disconnected())
    subscriber.connect(endpoint)
    subscriber.subscribe(topic)
    void this.#listen(subscriber)
  }

  close(): void {
    this.#isClosed = true
    this.#subscriber?.close()
    this.#waiting.length = 0
  }

  async #listen(subscriber: ZmqSubscriber): Promise<void> {
    try {
      for await (const frames of subscriber) {
        const batch = batchOf(frames)
        if (batch === null) continue
        if (this.#isReplaying) this.#hold(batch)
        else this.#arrived(batch)
      }
    } catch (error) {
      if (!this.#isClosed) this.#options.onFault(error)
    }
  }

  /** After a reconnect the publisher may be another process whose new numbers happen to match. */
  #disconnected(): void {
    if (this.#isClosed) return
    this.#restarts += 1
    this.#waiting.length = 0
    this.#clear()
  }

  #hold(batch: WaitingBatch): void {
    // Otherwise there is a gap after the waiting ones, which another replay fills.
    if (this.#waiting.length < WAITING_MAX) this.#waiting.push(batch)
  }

  #arrived(batch: WaitingBatch): void {
    switch (this.#sequence.arrives(batch.sequence, false)) {
      case 'apply':
        this.#apply(batch)
        return
      case 'gap':
        this.#gaps += 1
        break
      case 'restart':
        this.#restarts += 1
        this.#clear()
        break
      case 'old':
        return
    }
    this.#hold(batch)
    void this.#replay()
  }

  #apply({ sequence, payload }: WaitingBatch): void {
    this.#sequence.applied(sequence)
    this.#batches += 1
    let decoded: unknown
    try {
      decoded = this.#unpackr.unpack(payload)
    } catch {
      decoded = null
    }
    const batch = readForeignBatch(decoded)
    const events =
      batch === null
        ? this.#translator.translate({ dpRank: null, events: [], unreadable: 1 })
        : this.#translator.translate(batch)
    this.#hasApplied = true
    if (events.length > 0) this.#options.onEvents(this.#options.dpRank, events)
  }

  /** Tells the router that its blocks of this rank are no longer valid. */
  #clear(): void {
    this.#sequence.restart()
    this.#translator.restart()
    if (this.#hasApplied) this.#options.onEvents(this.#options.dpRank, [{ kind: 'cleared' }])
    this.#hasApplied = false
  }

  async #replay(): Promise<void> {
    if (this.#isReplaying) return
    this.#isReplaying = true
    try {
      const { replayEndpoint } = this.#options
      if (replayEndpoint !== null) await this.#readReplay(replayEndpoint)
    } catch (error) {
      if (!this.#isClosed) this.#options.onFault(error)
      await pause(this.#options.replayPauseMs ?? REPLAY_PAUSE_MS)
    } finally {
      this.#isReplaying = false
    }
    if (!this.#isClosed) this.#catchUp()
  }

  /**
   * Applies the batches that arrived meanwhile. If some are still missing, the rank starts again with what there is.
   */
  #catchUp(): void {
    for (const batch of this.#waiting.splice(0)) {
      const arrival = this.#sequence.arrives(batch.sequence, true)
      if (arrival === 'old') continue
      if (arrival === 'gap') {
        this.#losses += 1
        this.#clear()
      }
      this.#apply(batch)
    }
  }

  async #readReplay(endpoint: string): Promise<void> {
    const { zmq, replayIdleMs = REPLAY_IDLE_MS } = this.#options
    const dealer = new zmq.Dealer({
      linger: 0,
      ipv6: isIpv6(endpoint),
      receiveTimeout: replayIdleMs,
      sendTimeout: replayIdleMs,
    })
    this.#replays += 1
    try {
      dealer.connect(endpoint)
      const from = Buffer.alloc(8)
      from.writeBigUInt64BE(BigInt(this.#sequence.wanted))
      await dealer.send([Buffer.alloc(0), from])
      for (;;) {
        const frames = await dealer.receive()
        if (this.#isClosed) return
        // With or without a topic, depending on the version.
        const payload = frames.at(-1)
        const number = frames.at(-2)
        if (payload === undefined || number?.length !== 8) continue
        const sequence = Buffer.from(number).readBigUInt64BE()
        if (sequence === LAST && payload.length === 0) return
        this.#replayed({ sequence: Number(sequence), payload })
      }
    } catch (cause) {
      throw new BatonError('backend.response_timeout', 'KV events could not be replayed', { cause })
    } finally {
      dealer.close()
    }
  }

  #replayed(batch: WaitingBatch): void {
    const arrival = this.#sequence.arrives(batch.sequence, true)
    if (arrival === 'old') return
    if (arrival === 'gap' && this.#hasApplied) {
      this.#losses += 1
      this.#clear()
    }
    this.#apply(batch)
  }
}

function batchOf(frames: readonly Uint8Array[]): WaitingBatch | null {
  const payload = frames.at(-1)
  const number = frames.at(-2)
  if (payload === undefined || number?.length !== 8) return null
  return { sequence: Number(Buffer.from(number).readBigUInt64BE()), payload }
}

/**
 * Enabled only for IPv6: otherwise ZeroMQ would prefer the IPv6 address of a name with both kinds, where most
 * publishers do not listen.
 */
function isIpv6(endpoint: string): boolean {
  return endpoint.includes('[')
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
