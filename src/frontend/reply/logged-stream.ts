/**
 * A reply that reads the events of a background response from their log. A client that disconnects ends this
 * reply, not the response.
 */
import { DONE_EVENT, KEEP_ALIVE_COMMENT } from '../../api/index.ts'
import type { CancelSignal, Clock, Timer } from '../../base/index.ts'
import type { HttpReply, HttpStream, StreamWriter } from '../http/http-exchange.ts'
import { EventLog } from '../state/event-log.ts'
import type { EventSource } from '../state/event-log.ts'
import { STREAM_HEADERS } from './event-stream.ts'

interface StreamDeps {
  readonly clock: Clock
  readonly bounds: { readonly keepAliveMs: number }
  readonly background: { readonly isDraining: boolean }
}

interface StreamOptions {
  /** The number of the first event. */
  readonly next: number
  readonly onEnd?: () => void
}

/** How often a log of another process is read. */
const LOOK_MS = 500

export function streamOfEvents(
  deps: StreamDeps,
  events: EventSource,
  signal: CancelSignal,
  options: StreamOptions,
): HttpReply {
  const stream = new LoggedStream(deps, events, options)
  if (signal.aborted) stream.stop()
  else signal.addEventListener('abort', () => stream.stop())
  return { status: 200, headers: STREAM_HEADERS, body: stream }
}

class LoggedStream implements HttpStream {
  readonly #deps: StreamDeps
  readonly #events: EventSource
  readonly #onEnd: (() => void) | undefined
  #next: number
  #writer: StreamWriter | null = null
  #timer: Timer | null = null
  #stopListening: (() => void) | null = null
  #wroteAtMs = 0
  #isPaused = false
  #isOver = false

  constructor(deps: StreamDeps, events: EventSource, { next, onEnd }: StreamOptions) {
    this.#deps = deps
    this.#events = events
    this.#next = next
    this.#onEnd = onEnd
  }

  open(writer: StreamWriter): void {
    if (this.#isOver) return
    this.#writer = writer
    this.#wroteAtMs = this.#deps.clock.nowMs()
    if (this.#events instanceof EventLog) {
      this.#stopListening = this.#events.listen(() => this.#forward())
    }
    this.#look()
  }

  /** The client has disconnected, or there is nothing more to write. */
  stop(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#timer?.cancel()
    this.#stopListening?.()
    this.#onEnd?.()
  }

  #look(): void {
    this.#forward()
    if (this.#isOver) return
    const { clock, bounds, background } = this.#deps
    // A response of this process delays the shutdown until it has ended, one of another process does not.
    if (background.isDraining && this.#stopListening === null) {
      this.#end()
      return
    }
    if (clock.nowMs() - this.#wroteAtMs >= bounds.keepAliveMs) this.#write(KEEP_ALIVE_COMMENT)
    this.#timer = clock.after(Math.min(LOOK_MS, bounds.keepAliveMs), () => this.#look())
  }

  /** Writes all events that are there, as fast as the client reads them. */
  #forward(): void {
    while (!this.#isOver && !this.#isPaused) {
      if (this.#waitForReader()) return
      // Asked first: events that are added meanwhile are found by the next look.
      const { isOver } = this.#events
      const events = this.#events.from(this.#next)
      if (events === undefined) {
        // The client notices that events are missing because the last one does not end the response.
        this.#end()
        return
      }
      if (events.length === 0) {
        if (isOver) this.#end(DONE_EVENT)
        return
      }
      this.#next += events.length
      this.#write(events.join(''))
    }
  }

  #waitForReader(): boolean {
    const flow = this.#writer?.flow
    if (flow?.isFull !== true) return false
    this.#isPaused = true
    flow.whenRead(() => {
      this.#isPaused = false
      this.#forward()
    })
    return true
  }

  #write(text: string): void {
    this.#wroteAtMs = this.#deps.clock.nowMs()
    this.#writer?.write(text, true)
  }

  #end(last = ''): void {
    if (last !== '') this.#write(last)
    this.#writer?.end()
    this.stop()
  }
}
