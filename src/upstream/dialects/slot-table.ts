/**
 * Assigns the slots of one llama-server: for a KV transfer the slot must be known before the request is sent, and
 * must not take another prompt between computing and saving.
 *
 * Among the free slots the one whose last prompt has the longest common prefix is chosen, otherwise the least
 * recently used one. Requests that find none wait in order of arrival.
 */
import { BatonError } from '../../base/index.ts'

export interface Slot {
  readonly id: number
  /** The salt of the prompt in the slot; another tenant's prompt must not be reused. Null: unknown. */
  salt: string | null
  tokens: Uint32Array
  usedAt: number
}

interface Waiter {
  readonly tokens: Uint32Array
  readonly salt: string
  readonly take: (slot: Slot) => void
}

const NONE = new Uint32Array(0)

export class SlotTable {
  readonly count: number
  readonly #free: Slot[]
  readonly #waiters: Waiter[] = []
  #uses = 0

  /** What the slots contain is not known. */
  constructor(count: number) {
    this.count = count
    this.#free = Array.from({ length: count }, (_, id) => ({
      id,
      salt: null,
      tokens: NONE,
      usedAt: 0,
    }))
  }

  /** Rejects with `request.cancelled` when the signal is aborted before a slot is free. */
  async acquire(tokens: Uint32Array, salt: string, signal: AbortSignal): Promise<Slot> {
    if (signal.aborted) throw cancelled()
    const slot = this.#take(tokens, salt)
    if (slot !== null) return slot
    return await new Promise<Slot>((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        reject(cancelled())
      }
      const waiter: Waiter = {
        tokens,
        salt,
        take: (given) => {
          signal.removeEventListener('abort', onAbort)
          resolve(given)
        },
      }
      this.#waiters.push(waiter)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** `tokens`: what the slot contains now; `salt` is null if that is not known. */
  release(slot: Slot, tokens: Uint32Array, salt: string | null): void {
    slot.tokens = salt === null ? NONE : tokens
    slot.salt = salt
    slot.usedAt = ++this.#uses
    this.putBack(slot)
  }

  /** Nothing is known any more about what the free slots contain. */
  forget(): void {
    for (const slot of this.#free) {
      slot.salt = null
      slot.tokens = NONE
    }
  }

  /** For a slot that was not used. */
  putBack(slot: Slot): void {
    this.#free.push(slot)
    const waiter = this.#waiters.shift()
    if (waiter === undefined) return
    const next = this.#take(waiter.tokens, waiter.salt)
    if (next !== null) waiter.take(next)
  }

  #take(tokens: Uint32Array, salt: string): Slot | null {
    let best: Slot | null = null
    let bestShared = -1
    for (const slot of this.#free) {
      const shared = slot.salt === salt ? sharedTokens(slot.tokens, tokens) : 0
      const isBetter =
        shared > bestShared || (shared === bestShared && slot.usedAt < (best?.usedAt ?? 0))
      if (!isBetter) continue
      best = slot
      bestShared = shared
    }
    if (best !== null) this.#free.splice(this.#free.indexOf(best), 1)
    return best
  }
}

function sharedTokens(a: Uint32Array, b: Uint32Array): number {
  const length = Math.min(a.length, b.length)
  let shared = 0
  while (shared < length && a[shared] === b[shared]) shared += 1
  return shared
}

function cancelled(): BatonError {
  return new BatonError('request.cancelled', 'the request was cancelled while it waited for a slot')
}
