/**
 * The store of responses and conversations between calls: JSON texts by key, for a limited time and within a
 * memory limit.
 *
 * A store may forget: a missing entry is reported as not found, and an entry is never wrong. All methods are
 * synchronous, because a reply that names a stored response must not be sent before it is stored.
 */
import type { Clock } from '../../base/index.ts'

export interface StateStore {
  get(key: string): string | undefined
  /** Replaces the text of the key and restarts its time. */
  set(key: string, json: string): void
  /** Returns whether the key existed. */
  delete(key: string): boolean
  close(): void
}

interface MemoryStateOptions {
  readonly clock: Clock
  readonly ttlMs: number
  /** Limit in bytes: twice the UTF-16 code units of keys and texts, the most that a string takes. */
  readonly bytesMax: number
}

interface Kept {
  readonly json: string
  readonly untilMs: number
}

export class MemoryStateStore implements StateStore {
  readonly #options: MemoryStateOptions
  /** In the order of expiry. */
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

  /** Removes expired entries, and the oldest above the limit. */
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
