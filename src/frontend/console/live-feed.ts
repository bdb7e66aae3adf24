/**
 * `GET /debug/events`: changes as server-sent events, for a bounded number of readers.
 *
 * event: fleet      one `FleetView`, at the start and every second; less often when it is expensive to compute
 * event: requests   the recorded requests that have changed, twice a second
 *
 * Each text is made once for all readers, and none without readers: readers do not slow a fleet under load.
 */
import { asciiJson } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { CancelSignal, Clock, Timer } from '../../base/index.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import { EventStream, STREAM_HEADERS } from '../reply/event-stream.ts'
import type { FleetView } from './fleet-view.ts'
import type { RequestLog } from './request-log.ts'

interface LiveFeedOptions {
  readonly clock: Clock
  readonly log: RequestLog
  readonly fleet: () => FleetView
  /** Called repeatedly while there are readers. */
  readonly onLook?: () => void
}

export const READERS_MAX = 32
const TICK_MS = 500
const FLEET_MS = 1_000
/** Largest share of the time spent on computing fleet views, which is slow for ten thousand workers. */
const FLEET_SHARE = 0.01
const REQUESTS_PER_TICK = 200
const FIRST_REQUESTS = 100

export class LiveFeed {
  readonly #options: LiveFeedOptions
  readonly #readers = new Set<EventStream>()
  #timer: Timer | null = null
  #nextFleetMs = 0
  #revision = 0
  #isClosed = false

  constructor(options: LiveFeedOptions) {
    this.#options = options
  }

  /** Throws `capacity.exhausted` when there are too many readers. */
  open(signal: CancelSignal): HttpReply {
    if (this.#readers.size >= READERS_MAX) {
      throw new BatonError(
        'capacity.exhausted',
        `too many readers of events: at most ${READERS_MAX} are allowed`,
        {
          data: { limit: READERS_MAX },
        },
      )
    }
    const stream = new EventStream()
    if (this.#isClosed) stream.end()
    else this.#join(stream, signal)
    return { status: 200, headers: STREAM_HEADERS, body: stream }
  }

  /** Ends every stream. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
  }

  #join(stream: EventStream, signal: CancelSignal): void {
    const { log, onLook } = this.#options
    onLook?.()
    this.#readers.add(stream)
    signal.addEventListener('abort', () => {
      this.#readers.delete(stream)
      stream.abandon()
    })
    stream.write(this.#fleetText())
    stream.write(eventText('requests', log.latest(FIRST_REQUESTS).toReversed()))
    if (this.#timer !== null) return
    this.#revision = log.revision
    this.#timer = this.#options.clock.after(TICK_MS, () => this.#tick())
  }

  #tick(): void {
    this.#timer = null
    if (this.#readers.size === 0) return
    const { log, clock, onLook } = this.#options
    onLook?.()
    this.#timer = clock.after(TICK_MS, () => this.#tick())
    const changed = log.changedSince(this.#revision, REQUESTS_PER_TICK)
    this.#revision = log.revision
    if (changed.length > 0) this.#write(eventText('requests', changed))
    if (clock.nowMs() >= this.#nextFleetMs) this.#write(this.#fleetText())
  }

  #fleetText(): string {
    const { clock, fleet } = this.#options
    const startedMs = clock.nowMs()
    const text = eventText('fleet', fleet())
    const nowMs = clock.nowMs()
    this.#nextFleetMs = startedMs + Math.max(FLEET_MS, (nowMs - startedMs) / FLEET_SHARE)
    return text
  }

  #write(text: string): void {
    for (const reader of this.#readers) reader.write(text)
  }
}

function eventText(name: string, value: unknown): string {
  return `event: ${name}\ndata: ${asciiJson(value)}\n\n`
}
