/** The KV events of one step, in order; consecutive removed blocks become one event. */
import type { KvEvent } from '../kv/index.ts'

export class KvEventLog {
  #events: KvEvent[] = []
  #removed: number[] = []

  stored(parent: readonly [number, number] | null, hashes: Uint32Array): void {
    this.#closeRemoved()
    const localHashes = new Uint32Array(0)
    this.#events.push({ kind: 'stored', parent, hashes, localHashes, tier: 'host' })
  }

  removed(keyLow: number, keyHigh: number): void {
    this.#removed.push(keyLow, keyHigh)
  }

  /** The events since the last call. */
  take(): readonly KvEvent[] {
    this.#closeRemoved()
    const events = this.#events
    this.#events = []
    return events
  }

  #closeRemoved(): void {
    if (this.#removed.length === 0) return
    this.#events.push({ kind: 'removed', hashes: Uint32Array.from(this.#removed), tier: 'host' })
    this.#removed = []
  }
}
