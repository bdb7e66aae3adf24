/**
 * One rank's KV events over ZeroMQ: a PUB socket for `[topic, number, payload]`, and a ROUTER socket that replays
 * batches from a number on as `['', topic, number, payload]`, followed by one with the number 2^64 - 1 and no
 * payload.
 *
 * Numbers are 8 bytes, big-endian, starting at 0. Past batches are kept up to a number and a size; a subscriber that
 * missed more notices it from the number of the first replayed batch. A subscriber or client that does not read
 * loses batches; the engine never waits for it.
 */
import { isIPv6 } from 'node:net'
import { listenError } from '../../network/index.ts'

/** The part of the package `zeromq` that is used; it is optional and must not be needed to compile. */
export interface ZmqModule {
  readonly Publisher: new (options: Readonly<Record<string, unknown>>) => ZmqSocket
  readonly Router: new (options: Readonly<Record<string, unknown>>) => RouterSocket
}

interface ZmqSocket {
  readonly lastEndpoint: string | null
  bind(address: string): Promise<void>
  /** Only one call at a time. */
  send(frames: readonly Uint8Array[]): Promise<void>
  close(): void
}

type RouterSocket = ZmqSocket & AsyncIterable<readonly Buffer[]>

interface ZmqKvRankOptions {
  /** An IP address, not a host name. */
  readonly address: string
  /** 0: any free port. */
  readonly eventsPort: number
  /** Null: batches cannot be replayed. */
  readonly replayPort: number | null
  readonly batchesKept: number
  readonly bytesKept: number
}

/** vLLM's default: subscribe to everything. */
const TOPIC = new Uint8Array(0)
const EMPTY = new Uint8Array(0)
const LAST = new Uint8Array(8).fill(0xff)
/** Most queued messages for one subscriber. */
const SUBSCRIBER_MESSAGES_MAX = 100_000
/** Incoming messages are subscriptions and numbers. */
const INBOUND_BYTES_MAX = 1024
const REPLAY_SEND_TIMEOUT_MS = 1000

export class ZmqKvRank {
  readonly #options: ZmqKvRankOptions
  readonly #publisher: ZmqSocket
  readonly #router: RouterSocket | null
  readonly #kept = new Map<number, Uint8Array>()
  #keptBytes = 0
  #oldest = 0
  #next = 0
  #sent = 0
  #isSending = false
  #isClosed = false

  constructor(zmq: ZmqModule, options: ZmqKvRankOptions) {
    const { address, replayPort, batchesKept } = options
    this.#options = options
    const both = { linger: 0, ipv6: isIPv6(address), maxMessageSize: INBOUND_BYTES_MAX }
    this.#publisher = new zmq.Publisher({ ...both, sendHighWaterMark: SUBSCRIBER_MESSAGES_MAX })
    // Mandatory: without it a replay whose client does not read would have gaps instead of an end.
    const replay = { mandatory: true, sendTimeout: REPLAY_SEND_TIMEOUT_MS }
    this.#router =
      replayPort === null
        ? null
        : new zmq.Router({ ...both, ...replay, sendHighWaterMark: batchesKept + 1 })
  }

  /** The addresses with the actual ports. */
  async listen(): Promise<{ readonly events: string; readonly replay: string | null }> {
    const { address, eventsPort, replayPort } = this.#options
    const events = await bind(this.#publisher, address, eventsPort)
    if (this.#router === null) return { events, replay: null }
    const replay = await bind(this.#router, address, replayPort ?? 0)
    void this.#answer(this.#router)
    return { events, replay }
  }

  publish(payload: Uint8Array): void {
    if (this.#isClosed) return
    this.#kept.set(this.#next, payload)
    this.#keptBytes += payload.length
    this.#next += 1
    this.#forget()
    if (!this.#isSending) void this.#sendKept()
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#publisher.close()
    this.#router?.close()
  }

  /** Never drops the newest batch, which is still to be sent. */
  #forget(): void {
    const { batchesKept, bytesKept } = this.#options
    while (this.#kept.size > 1 && (this.#kept.size > batchesKept || this.#keptBytes > bytesKept)) {
      this.#keptBytes -= this.#kept.get(this.#oldest)!.length
      this.#kept.delete(this.#oldest)
      this.#oldest += 1
    }
  }

  #framesOf(number: number): Uint8Array[] {
    const payload = this.#kept.get(number)!
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(BigInt(number))
    return [TOPIC, bytes, payload]
  }

  async #sendKept(): Promise<void> {
    this.#isSending = true
    try {
      while (this.#sent < this.#next && !this.#isClosed) {
        const number = Math.max(this.#sent, this.#oldest)
        this.#sent = number + 1
        await this.#publisher.send(this.#framesOf(number))
      }
    } catch (error) {
      if (!this.#isClosed) throw error
    } finally {
      this.#isSending = false
    }
  }

  async #answer(router: RouterSocket): Promise<void> {
    try {
      for await (const frames of router) {
        const [asker, empty, from] = frames
        if (frames.length !== 3 || empty?.length !== 0 || from?.length !== 8) continue
        await this.#replay(router, [asker!, empty], from.readBigUInt64BE())
      }
    } catch (error) {
      if (!this.#isClosed) throw error
    }
  }

  async #replay(router: ZmqSocket, envelope: readonly Buffer[], from: bigint): Promise<void> {
    const end = this.#next
    const first = from < BigInt(end) ? Math.max(Number(from), this.#oldest) : end
    try {
      for (let number = first; number < end; number++) {
        // Meanwhile newer batches may have displaced the requested ones.
        if (number < this.#oldest) continue
        await router.send([...envelope, ...this.#framesOf(number)])
      }
      await router.send([...envelope, TOPIC, LAST, EMPTY])
    } catch {
      // The client is gone or does not read. Without the end message it knows that the replay is incomplete.
    }
  }
}

async function bind(socket: ZmqSocket, address: string, port: number): Promise<string> {
  const host = isIPv6(address) ? `[${address}]` : address
  try {
    await socket.bind(`tcp://${host}:${port === 0 ? '*' : port}`)
  } catch (cause) {
    throw listenError(cause as NodeJS.ErrnoException, { host: address, port })
  }
  return socket.lastEndpoint ?? `tcp://${host}:${port}`
}
