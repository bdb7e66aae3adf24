/**
 * A rank's snapshot from a list of the engine (`Engine.heldKv`), of the moment when the snapshot began. The events since
 * then wait behind it. If they are too many, it is stale.
 */
import type { KvEvent } from '../../kv/index.ts'
import { workOfEvent } from '../../wire/index.ts'
import { wordsOf } from './event-size.ts'
import type { RankSnapshot } from './rank-snapshot.ts'

export class ListedSnapshot implements RankSnapshot {
  readonly #waitingMax: number
  readonly #events: KvEvent[]
  #at = 0
  #waiting = 0

  constructor(held: readonly KvEvent[], waitingMax: number) {
    this.#events = [...held]
    this.#waitingMax = waitingMax
  }

  get isDone(): boolean {
    return this.#at >= this.#events.length
  }

  get isStale(): boolean {
    return this.#waiting > this.#waitingMax
  }

  take(sizeMax: number): KvEvent[] {
    const from = this.#at
    for (let size = 0; size < sizeMax && this.#at < this.#events.length; this.#at++) {
      size += workOfEvent(this.#events[this.#at] as KvEvent)
    }
    return this.#events.slice(from, this.#at)
  }

  follow(events: readonly KvEvent[]): readonly KvEvent[] {
    for (const event of events) {
      this.#events.push(event)
      this.#waiting += wordsOf(event)
    }
    return []
  }

  close(): void {
    this.#events.length = 0
  }
}
