/**
 * The KV that has arrived at a decode worker and waits for its request.
 *
 * KV with an envelope is paired by id. KV without one is used only if it is the only one and none is arriving;
 * otherwise the request is refused and all KV without an envelope is dropped, because nothing can tell any more whose
 * it is. KV that nobody has claimed in time keeps its place as long again, without its bytes: its request may still be
 * on its way, and must not get another's.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { unwrapKv } from './kv-envelope.ts'
import type { UnwrappedKv } from './kv-envelope.ts'

interface Entry {
  /** Null: the bytes are gone. */
  unwrapped: UnwrappedKv | null
  bytes: number
  timer: Timer
}

export class HeldKv {
  readonly #clock: Clock
  readonly #waitMs: number
  readonly #byId = new Map<string, Entry>()
  readonly #bare = new Set<Entry>()

  constructor(clock: Clock, waitMs: number) {
    this.#clock = clock
    this.#waitMs = waitMs
  }

  /** Payloads whose bytes are here. */
  get count(): number {
    let count = this.#byId.size
    for (const { unwrapped } of this.#bare) if (unwrapped) count += 1
    return count
  }

  get bytes(): number {
    let bytes = 0
    for (const entry of this.#byId.values()) bytes += entry.bytes
    for (const entry of this.#bare) bytes += entry.bytes
    return bytes
  }

  put(payload: Uint8Array): void {
    const unwrapped = unwrapKv(payload)
    const bytes = payload.length
    const { envelope } = unwrapped
    if (envelope) {
      const id = idOf(envelope.routerRank, envelope.requestId)
      this.#remove(id)
      const timer = this.#clock.after(this.#waitMs, () => this.#byId.delete(id))
      this.#byId.set(id, { unwrapped, bytes, timer })
      return
    }
    const entry: Entry = {
      unwrapped,
      bytes,
      timer: this.#clock.after(this.#waitMs, () => {
        entry.unwrapped = null
        entry.bytes = 0
        entry.timer = this.#clock.after(this.#waitMs, () => this.#bare.delete(entry))
      }),
    }
    this.#bare.add(entry)
  }

  /** Undefined: the request has no KV of its own here. */
  claim(routerRank: number, requestId: bigint, isArriving: boolean): UnwrappedKv | undefined {
    const own = this.#remove(idOf(routerRank, requestId))
    if (own) return own
    const [only, second] = this.#bare
    const unwrapped = second || isArriving ? null : only?.unwrapped
    this.dropBare()
    return unwrapped ?? undefined
  }

  drop(routerRank: number, requestId: bigint): void {
    this.#remove(idOf(routerRank, requestId))
  }

  dropOfRouter(routerRank: number): void {
    for (const [id, { unwrapped }] of this.#byId) {
      if (unwrapped?.envelope?.routerRank === routerRank) this.#remove(id)
    }
  }

  dropBare(): void {
    for (const { timer } of this.#bare) timer.cancel()
    this.#bare.clear()
  }

  clear(): void {
    this.dropBare()
    for (const id of this.#byId.keys()) this.#remove(id)
  }

  #remove(id: string): UnwrappedKv | null {
    const entry = this.#byId.get(id)
    entry?.timer.cancel()
    this.#byId.delete(id)
    return entry?.unwrapped ?? null
  }
}

const idOf = (routerRank: number, requestId: bigint): string => `${routerRank} ${requestId}`
