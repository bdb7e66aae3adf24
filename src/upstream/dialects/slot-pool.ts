/**
 * Lends the slots of one llama-server to requests, and knows whose prompt each contains, so that no tenant reuses what
 * another one left.
 *
 * For the number of a slot that it does not have the server takes another slot, which may contain anybody's prompt. A
 * server that was started again may have fewer slots. So it is asked for their number before each request that names
 * one, and the request follows over the same connection, which means: to the same process. When the number has
 * changed, all that was known is forgotten, and nothing is reused until the requests from before have ended.
 *
 * A slot contains a request's prompt as soon as the server has computed it, which its first token shows. After a
 * request without a token it is unknown what its slot contains.
 */
import { BatonError } from '../../base/index.ts'
import { fetchWhole, jsonOf } from '../client/fetch-json.ts'
import { Lane } from '../client/lane.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { numberIn } from './plain-values.ts'
import { SlotTable } from './slot-table.ts'
import type { Slot } from './slot-table.ts'

const ASK_MS = 10_000
/** Of a server that reports another number every time, or several behind one address. */
const TRIES_MAX = 5

interface SlotUser {
  readonly tokens: Uint32Array
  readonly salt: string
}

export class SlotPool {
  #table: SlotTable
  /** Increases when everything known is forgotten. */
  #epoch = 0
  #lent = 0
  /** Lent from an earlier table, and still used: it is unknown which slots these requests fill. */
  #stale = 0

  constructor(count: number) {
    this.#table = new SlotTable(count)
  }

  /** A slot, when one is free. Rejects with `request.cancelled` when the signal is aborted before. */
  async lease(client: UpstreamClient, user: SlotUser, signal: AbortSignal): Promise<SlotLease> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const table = this.#table
      const slot = await table.acquire(user.tokens, user.salt, signal)
      const lane = new Lane()
      try {
        const count = await askSlotCount(client, lane, signal)
        if (count !== this.#table.count) this.#replace(count)
      } catch (thrown) {
        table.putBack(slot)
        throw thrown
      }
      if (table === this.#table) return this.#lend(table, slot, user, lane)
      table.putBack(slot)
    }
    throw new BatonError(
      'backend.worker_unavailable',
      'the engine reports another number of slots every time it is asked: one llama-server must answer at its address',
    )
  }

  #replace(count: number): void {
    this.#table = new SlotTable(count)
    this.#stale += this.#lent
    this.#lent = 0
  }

  #forget(): void {
    this.#epoch += 1
    this.#table.forget()
  }

  #returned(table: SlotTable): void {
    if (table === this.#table) this.#lent -= 1
    else if (--this.#stale === 0) this.#forget()
  }

  #lend(table: SlotTable, slot: Slot, { tokens, salt }: SlotUser, lane: Lane): SlotLease {
    const epoch = this.#epoch
    this.#lent += 1
    const holdsOwn = slot.salt === salt && this.#stale === 0
    return new SlotLease(slot, lane, holdsOwn, {
      release: (isComputed) => {
        this.#returned(table)
        const isKnown = isComputed && epoch === this.#epoch
        table.release(slot, tokens, isKnown ? salt : null)
      },
      elsewhere: () => this.#forget(),
    })
  }
}

interface SlotLender {
  release(isComputed: boolean): void
  elsewhere(): void
}

/** A slot that one request has. */
export class SlotLease {
  readonly id: number
  /** Every call about this slot is sent in it. */
  readonly lane: Lane
  /** True when the request may reuse the content of the slot. */
  readonly holdsOwn: boolean
  readonly #lender: SlotLender
  #isComputed = false
  #isHeld = true

  constructor(slot: Slot, lane: Lane, holdsOwn: boolean, lender: SlotLender) {
    this.id = slot.id
    this.lane = lane
    this.holdsOwn = holdsOwn
    this.#lender = lender
  }

  /** The server has computed the prompt in this slot. */
  computed(): void {
    this.#isComputed = true
  }

  /** `id`: the slot that an answer names. If it is another one, it is unknown what any slot contains. */
  answeredFrom(id: number | undefined): void {
    if (id !== undefined && id >= 0 && id !== this.id) this.#lender.elsewhere()
  }

  /** Idempotent. */
  release(): void {
    if (this.#isHeld) this.#lender.release(this.#isComputed)
    this.#isHeld = false
  }
}

/** Of `GET /props`. */
export function slotCountIn(props: unknown): number {
  return numberIn(props, 'total_slots') ?? 1
}

async function askSlotCount(
  client: UpstreamClient,
  lane: Lane,
  signal: AbortSignal,
): Promise<number> {
  const request = { method: 'GET', path: '/props', lane }
  const { status, text } = await fetchWhole(client, request, { deadlineMs: ASK_MS, signal })
  if (status < 500) return slotCountIn(status === 200 ? jsonOf(text) : null)
  throw new BatonError('backend.worker_unavailable', `the engine answers ${status} to /props`, {
    data: { stage: 'upstream' },
  })
}
