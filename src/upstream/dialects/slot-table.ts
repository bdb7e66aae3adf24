/**
 * The slots of one llama-server, given out here: for a hand-over the slot has to be known before the request is sent, and
 * must not take another prompt between computing and saving.
 *
 * Of the free ones the slot whose last prompt shares the longest beginning is taken, else the one that rested longest.
 * Who finds none waits in the order of coming.
 */
import { BatonError } from '../../base/index.ts'

export interface Slot {
  readonly id: number
  /** Whose prompt it holds; another tenant's must not be built upon. */
  salt: string
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
  readonly #free: Slot[]
  readonly #waiters: Waiter[] = []
  #uses = 0

  constructor(count: number) {
    this.#free = Array.from({ length: count }, (_, id) => ({
      id,
      salt: '',
      tokens: NONE,
      usedAt: 0,
    }))
  }

  get freeCount(): number {
    return this.#free.length
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

  /** `tokens`: what it holds now. */
  release(slot: Slot, tokens: Uint32Array, salt: string): void {
    slot.tokens = tokens
    slot.salt = salt
    slot.usedAt = ++this.#uses
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
  return new BatonError('request.cancelled', 'the request was stopped while it waited for a slot')
}
