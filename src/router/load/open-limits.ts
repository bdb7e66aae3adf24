/**
 * The open requests of each rank whose batch size is not known, and their learned limit. Both are columns of the rank
 * table, so that a decision only reads them.
 */
import type { Booking } from './active-sequences.ts'
import { OpenLimit } from '../rates/open-limit.ts'
import type { RankTable } from '../ranks/rank-table.ts'

export class OpenLimits {
  readonly #table: RankTable
  readonly #queue: number | null
  readonly #limits: (OpenLimit | undefined)[] = []

  /** `engineQueue`: requests that may wait inside a worker; null: no limit. */
  constructor(table: RankTable, engineQueue: number | null) {
    this.#table = table
    this.#queue = engineQueue
  }

  /** Call when it has been booked. `tokens`: those of the prompt that are computed, or received, there. */
  sent(booking: Booking, tokens: number, nowMs: number): void {
    const { slot, isWhole } = booking
    if (this.#queue === null || this.#table.maxSequences[slot] !== 0) return
    const limit = (this.#limits[slot] ??= new OpenLimit(this.#queue))
    const { activeRequests, peerRequests, peerPromptTokens } = this.#table
    const peers = peerRequests[slot] as number
    const others = (activeRequests[slot] as number) - 1 + peers
    const arePeersOpen = (peerPromptTokens[slot] as number) > 0
    booking.open = limit.sent(tokens, isWhole, { others, peers, arePeersOpen }, nowMs)
    this.#write(slot, limit)
  }

  /** Returns whether the rank may take more than before. */
  answered(booking: Booking, nowMs: number): boolean {
    const { open, slot } = booking
    const limit = this.#limits[slot]
    if (open === null || limit === undefined) return false
    booking.open = null
    limit.answered(open, nowMs)
    this.#write(slot, limit)
    return true
  }

  /** A request of another router has its first token. Returns whether the rank may take fewer than before. */
  peerAnswered(slot: number, tokens: number, elapsedMs: number, nowMs: number): boolean {
    const limit = this.#limits[slot]
    if (limit === undefined) return false
    const { max } = limit
    limit.peerAnswered(tokens, elapsedMs, nowMs)
    if (limit.max === max) return false
    this.#write(slot, limit)
    return true
  }

  /** Ended, with or without a first token. */
  ended(booking: Booking, nowMs: number): void {
    const { open, slot } = booking
    const limit = this.#limits[slot]
    if (open === null || limit === undefined) return
    booking.open = null
    limit.ended(open, nowMs)
    this.#write(slot, limit)
  }

  /** The rank has left. */
  leave(slot: number): void {
    this.#limits[slot] = undefined
  }

  #write(slot: number, { open, max, waiting }: OpenLimit): void {
    this.#table.openRequests[slot] = open
    this.#table.openMax[slot] = max
    this.#table.openWaiting[slot] = waiting
  }
}
