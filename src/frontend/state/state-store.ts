/**
 * Where responses and conversations are kept between calls: JSON texts by key, for a time and within a bound.
 *
 * A store may forget: what it does not have is not found, never wrong. All of it is synchronous, because a reply that names a
 * stored response must not leave before that is stored.
 */
import type { Clock } from '../../base/index.ts'

export interface StateStore {
  get(key: string): string | undefined
  /** Another text under the same key takes its place and begins its time anew. */
  set(key: string, json: string): void
  /** Whether it was there. */
  delete(key: string): boolean
  close(): void
}

interface MemoryStateOptions {
  readonly clock: Clock
  readonly ttlMs: number
  /** UTF-16 units of keys and texts, twice: what a string takes at most. */
  readonly bytesMax: number
}

interface Kept {
  readonly json: string
  readonly untilMs: number
}

export class MemoryStateStore implements StateStore {
  readonly #options: MemoryStateOptions
  /** In the order in which their time ends. */
  readonly #kept = new Map<string, Kept>()
  #bytes = 0

  constructor(options: MemoryStateOptions) {
    this.#options = options
  }

  get(key: string): string | undefined {
    this.#forget()
    return this.#kept.get(key)?.json
  }

  set(key: string, json: string): void {
    const { clock, ttlMs } = this.#options
    this.delete(key)
    this.#kept.set(key, { json, untilMs: clock.nowMs() + ttlMs })
    this.#bytes += sizeOf(key, json)
    this.#forget()
  }

  delete(key: string): boolean {
    const kept = this.#kept.get(key)
    if (kept === undefined) return false
    this.#bytes -= sizeOf(key, kept.json)
    return this.#kept.delete(key)
  }

  close(): void {
    this.#kept.clear()
    this.#bytes = 0
  }

  /** What is over its time, and the oldest beyond the bound. */
  #forget(): void {
    const nowMs = this.#options.clock.nowMs()
    for (const [key, { untilMs }] of this.#kept) {
      if (untilMs > nowMs && this.#bytes <= this.#options.bytesMax) return
      this.delete(key)
    }
  }
}

function sizeOf(key: string, json: string): number {
  return 2 * (key.length + json.length)
}
