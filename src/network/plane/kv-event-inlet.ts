/**
 * The KV events that one worker sends, for a frontend: applied at once as long as the turn of the event loop has time
 * for them, otherwise in later turns. Meanwhile nothing more is read from the worker, so little has to wait.
 */
import type { KvEventBatch } from '../../kv/index.ts'
import { decodeKvEvents, workOfBatch } from '../../wire/index.ts'
import type { SharedTurns, TurnTask } from '../link/shared-turns.ts'

export interface KvEventInletOptions {
  readonly turns: SharedTurns
  readonly take: (batch: KvEventBatch) => void
  readonly pause: () => void
  readonly resume: () => void
  /** Events that had to wait cannot be decoded, or `take` threw. */
  readonly onFault: (error: unknown) => void
}

export class KvEventInlet implements TurnTask {
  readonly #options: KvEventInletOptions
  /** Payloads of KV_EVENTS, and calls that must not come before them. */
  #waiting: (Uint8Array | (() => void))[] = []

  constructor(options: KvEventInletOptions) {
    this.#options = options
  }

  get wantsTurn(): boolean {
    return this.#waiting.length > 0
  }

  /** `bytes[start, end)` is the payload of KV_EVENTS; only valid during the call. */
  receive(bytes: Uint8Array, start: number, end: number): void {
    const { turns } = this.#options
    if (this.#waiting.length === 0 && !turns.isSpent) {
      turns.spend(this.#apply(bytes, start, end))
      return
    }
    this.#waiting.push(new Uint8Array(bytes.subarray(start, end)))
    this.#options.pause()
    turns.add(this)
  }

  /** Calls it when all events received so far are applied. */
  after(run: () => void): void {
    if (this.#waiting.length === 0) run()
    else this.#waiting.push(run)
  }

  step(sizeMax: number): number {
    let size = 0
    let done = 0
    try {
      for (; done < this.#waiting.length && size < sizeMax; done++) {
        const next = this.#waiting[done] as Uint8Array | (() => void)
        if (typeof next === 'function') next()
        else size += this.#apply(next, 0, next.length)
      }
      this.#waiting.splice(0, done)
    } catch (error) {
      this.clear()
      this.#options.onFault(error)
    }
    if (this.#waiting.length === 0) this.#options.resume()
    return size
  }

  /** The connection is lost: what waits is not valid any more. */
  clear(): void {
    this.#waiting = []
    this.#options.turns.remove(this)
  }

  #apply(bytes: Uint8Array, start: number, end: number): number {
    const batch = decodeKvEvents(bytes, start, end)
    this.#options.take(batch)
    return workOfBatch(batch)
  }
}
