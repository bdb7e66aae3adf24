/**
 * Background responses: which of them run in this process, and how any process cancels them.
 *
 * Other frontends with the same store see from a sign of life that is renewed whether a response is still
 * running, and cancel it with a mark. A sign of life is judged by how long its reader has seen it unchanged, by its own
 * monotonic clock, because wall clocks differ and jump. So a reader that has just started has to wait first.
 */
import type { Clock } from '../../base/index.ts'
import { BatonError } from '../../base/index.ts'
import type { EventLog } from './event-log.ts'
import type { StoredResponses } from './stored-responses.ts'

const BEAT_MS = 1_000
/** A process that has not renewed the sign of life for so long is dead. */
const SILENT_MS = 15_000
/** The one that was read longest ago is forgotten, and is seen for the first time when it is read again. */
const SEEN_MAX = 10_000

/** Limit for clients that read the events of a response again. */
const READERS_MAX = 1_000

type Stored = Pick<StoredResponses, 'keyOf' | 'note' | 'readNote'>

/** A sign of life of another process, and since when it is known. */
interface Seen {
  readonly mark: string
  readonly sinceMs: number
}

interface Running {
  readonly control: AbortController
  /** Absent: the events of the response are not kept. */
  readonly events: EventLog | undefined
}

export class BackgroundResponses {
  readonly #clock: Clock
  /** By tenant and id, because clients may choose ids. */
  readonly #running = new Map<string, Running>()
  /** In the order in which they were read last. */
  readonly #seen = new Map<string, Seen>()
  #readers = 0
  /** True: streams of responses that other processes compute have to end. */
  isDraining = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#running.size
  }

  /**
   * Starts `work`, which is told when to end. `fail` is called once when it does not complete; `isCancelled`: by
   * `cancel`. `events` ends with the work.
   */
  begin(
    id: string,
    stored: Stored,
    work: (signal: AbortSignal) => Promise<unknown>,
    fail: (error: BatonError, isCancelled: boolean) => void,
    events?: EventLog,
  ): void {
    const control = new AbortController()
    const key = stored.keyOf(id)
    this.#running.set(key, { control, events })
    let isOver = false
    const beat = (): void => {
      if (isOver) return
      stored.note(id, 'alive', String(this.#clock.epochMs()))
      events?.flush()
      if (stored.readNote(id, 'cancel') !== undefined) control.abort()
      this.#clock.after(BEAT_MS, beat)
    }
    beat()
    work(control.signal)
      .catch((thrown: unknown) => fail(BatonError.from(thrown), control.signal.aborted))
      .finally(() => {
        isOver = true
        this.#running.delete(key)
        events?.end()
      })
  }

  /** Ends the response soon, in this process or another one. */
  cancel(id: string, stored: Stored): void {
    stored.note(id, 'cancel', '1')
    this.#running.get(stored.keyOf(id))?.control.abort()
  }

  /** True when a process is still computing it. */
  isAlive(id: string, stored: Stored): boolean {
    const key = stored.keyOf(id)
    if (this.#running.has(key)) return true
    const mark = stored.readNote(id, 'alive')
    return mark !== undefined && this.#unchangedMs(key, mark) < SILENT_MS
  }

  #unchangedMs(key: string, mark: string): number {
    const nowMs = this.#clock.nowMs()
    const known = this.#seen.get(key)
    const seen = known?.mark === mark ? known : { mark, sinceMs: nowMs }
    this.#seen.delete(key)
    this.#seen.set(key, seen)
    const [oldest] = this.#seen.keys()
    if (this.#seen.size > SEEN_MAX && oldest !== undefined) this.#seen.delete(oldest)
    return nowMs - seen.sinceMs
  }

  /** Undefined: the response is not computed by this process, or its events are not kept. */
  eventsOf(id: string, stored: Stored): EventLog | undefined {
    return this.#running.get(stored.keyOf(id))?.events
  }

  /** Counts a reader; the returned function ends it. Throws `capacity.exhausted`. */
  addReader(): () => void {
    if (this.#readers >= READERS_MAX) {
      const text = `too many clients read background responses: at most ${READERS_MAX} are allowed`
      throw new BatonError('capacity.exhausted', text, { data: { limit: READERS_MAX } })
    }
    this.#readers += 1
    let isOver = false
    return () => {
      if (!isOver) this.#readers -= 1
      isOver = true
    }
  }
}
