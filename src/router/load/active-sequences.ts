/**
 * The load that this router has placed on each rank: active requests with their prompt and output blocks and prefill.
 *
 * Its sums are columns of the rank table; a booking that is freed removes everything that it added to them. See
 * `Bookings` for what else a booking holds.
 */
import { InFlightSet } from '../../base/index.ts'
import type { InFlight } from '../../base/index.ts'
import { HeldPrefixTree } from '../../kv/index.ts'
import type { HeldPrefixNode } from '../../kv/index.ts'
import type { FirstTokenSeen, ServedSeen } from './peer-news.ts'
import type { OpenRequest } from '../rates/open-limit.ts'
import type { RankMoment } from './rank-backlog.ts'
import { PrefillLoad } from './prefill-load.ts'
import type { OpenPrefill } from './prefill-load.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import type { RankTable } from '../ranks/rank-table.ts'

export interface BookingOptions {
  readonly slot: number
  /** Sequence hashes of the complete prompt blocks (pairs of u32); null: blocks are not tracked by hash. */
  readonly hashes: Uint32Array | null
  /** Blocks that cannot be shared; used when there are no hashes. */
  readonly privateBlocks?: number
  readonly promptTokens: number
  /** Prompt tokens to compute; 0 or null: prefill is not tracked. */
  readonly prefillTokens: number | null
  readonly prefillDurationMs?: number | null
  readonly expectedOutputTokens?: number | null
  readonly record?: BookedRecord
  readonly showsSpeed?: boolean
  readonly isWhole?: boolean
  readonly endsAtFirst?: boolean
  readonly onward?: RankGroup | null
  readonly wasHandedOver?: boolean
}

/** The decision record that a booking completes with the measured time to the first token. */
interface BookedRecord {
  readonly outcome: { readonly kind: 'routed'; ttftMs?: number } | { readonly kind: 'refused' }
}

export class Booking implements InFlight {
  place = -1
  readonly slot: number
  readonly promptTokens: number
  readonly expectedOutputTokens: number | null
  node: HeldPrefixNode | null = null
  privateBlocks = 0
  privateWeight = 1
  outputBlocks = 0
  outputWeight = 1
  outputTokens = 0
  /** Number of output tokens at which the next block begins. */
  nextBlockAt = 0
  /** Null if there is no prefill, or it is done. */
  prefill: OpenPrefill | null = null
  /** Null if it has its first token, or the rank's batch size is known. */
  open: OpenRequest | null = null
  // Predictions made at dispatch and counters since then; see `RankBacklog`.
  sentMs = 0
  waitMs = 0
  stepMs = 0
  predictedMs = 0
  uncachedTokens = 0
  /** Predicted prefill time of its prompt; null if there is none or it is done. */
  prefillMs: number | null = null
  /** `RankBacklog.scale` at that time. */
  prefillScale = 1
  /** The record of its decision, for the measured time to the first token. */
  record: BookedRecord | null
  /** True if the rank had a free place in its batch at dispatch. */
  hasPlace = true
  /** False for a forwarded request: its first item may be the whole reply, and its pieces are not tokens. */
  readonly showsSpeed: boolean
  /** True for a forwarded request whose reply arrives as a whole; its prefill is not part of the rank's backlog. */
  readonly isWhole: boolean
  /** True if the prompt is longer than one engine step (`maxBatchedTokens`). */
  isLong = false
  /** True while its prompt waits for a later engine step than the one in progress or about to begin. */
  isHeld = false
  /** Hashes of its prompt while it is computed, and the first block that prompts in its last step do not find. */
  sequence: Uint32Array | null = null
  firstNew = 0
  firstTokenMs: number | null = null
  /** True if the request ends with its first token. */
  readonly endsAtFirst: boolean
  /** The decode ranks where its next leg may run; null: none follows. */
  readonly onward: RankGroup | null
  /** The decode leg has asked for its place. */
  isFollowed = false
  /** Its prompt was computed by a prefill worker. */
  readonly wasHandedOver: boolean
  /**
   * For a prompt computed elsewhere: called at the first token with the elapsed time minus one decode step, and the
   * standard deviation of that.
   */
  onArrival: ((elapsedMs: number, spreadMs: number) => void) | null = null
  atFirst: RankMoment | null = null
  /** The moment when a forwarded request was sent. */
  atSent: RankMoment | null = null
  /** Measured times that other frontends have not been told yet. */
  first: FirstTokenSeen | null = null
  served: ServedSeen | null = null
  freed = false

  constructor(options: BookingOptions) {
    this.slot = options.slot
    this.promptTokens = options.promptTokens
    this.expectedOutputTokens = options.expectedOutputTokens ?? null
    this.record = options.record ?? null
    this.showsSpeed = options.showsSpeed ?? true
    this.isWhole = options.isWhole ?? false
    this.endsAtFirst = options.endsAtFirst ?? false
    this.onward = options.onward ?? null
    this.wasHandedOver = options.wasHandedOver ?? false
  }
}

export class ActiveSequences {
  readonly #table: RankTable
  readonly #tree = new HeldPrefixTree()
  readonly #prefills: (PrefillLoad | undefined)[] = []
  readonly #bookings: (InFlightSet<Booking> | undefined)[] = []
  /** Ranks whose prefill load decays with the clock. */
  readonly #decaying = new Set<number>()
  readonly #blockSize: () => number
  readonly #onDecayed: (slot: number) => void

  /** `onDecayed` is called when a rank's load changed only because time passed. */
  constructor(table: RankTable, blockSize: () => number, onDecayed: (slot: number) => void) {
    this.#table = table
    this.#blockSize = blockSize
    this.#onDecayed = onDecayed
  }

  add(options: BookingOptions, nowMs: number): Booking {
    const { slot } = options
    const table = this.#table
    const booking = new Booking(options)
    const bookings = (this.#bookings[slot] ??= new InFlightSet())
    bookings.add(booking)
    table.activeRequests[slot] = (table.activeRequests[slot] as number) + 1
    table.sentSinceReport[slot] = (table.sentSinceReport[slot] as number) + 1
    if (options.hashes !== null && options.hashes.length > 0) {
      const { node, added } = this.#tree.insert(options.hashes, slot)
      booking.node = node
      this.#addBlocks(slot, added)
    }
    booking.privateBlocks = options.privateBlocks ?? 0
    this.#addBlocks(slot, booking.privateBlocks)
    const blockSize = this.#blockSize()
    const promptBlocks = Math.ceil(options.promptTokens / blockSize)
    booking.nextBlockAt = promptBlocks * blockSize - options.promptTokens + 1
    if (options.prefillTokens !== null && options.prefillTokens > 0) {
      const prefill = (this.#prefills[slot] ??= new PrefillLoad())
      table.openPrefills[slot] = (table.openPrefills[slot] as number) + 1
      booking.prefill = prefill.add(options.prefillTokens, options.prefillDurationMs ?? null, nowMs)
      this.#refreshPrefill(slot, nowMs)
    }
    booking.sentMs = nowMs
    return booking
  }

  /** Idempotent; returns whether anything changed. */
  prefillDone(booking: Booking, nowMs: number): boolean {
    const { prefill } = booking
    if (prefill === null) return false
    booking.prefill = null
    const table = this.#table
    table.openPrefills[booking.slot] = (table.openPrefills[booking.slot] as number) - 1
    this.#prefills[booking.slot]?.remove(prefill, nowMs)
    this.#refreshPrefill(booking.slot, nowMs)
    return true
  }

  /** A block of output has begun. The closer the expected end, the less the request's own blocks count. */
  addOutputBlock(booking: Booking, decayFraction?: number): void {
    if (booking.freed) return
    const { slot } = booking
    booking.outputBlocks++
    this.#addBlocks(slot, booking.outputWeight)
    if (decayFraction === undefined) return
    this.#addBlocks(slot, booking.outputBlocks * (decayFraction - booking.outputWeight))
    booking.outputWeight = decayFraction
    this.#addBlocks(slot, booking.privateBlocks * (decayFraction - booking.privateWeight))
    booking.privateWeight = decayFraction
    if (booking.node !== null) {
      this.#addBlocks(slot, this.#tree.weigh(booking.node, slot, decayFraction))
    }
  }

  /** Counts output tokens and adds a block when one begins. Returns the number of tokens until the next block begins. */
  addOutput(booking: Booking, tokens: number): number {
    booking.outputTokens += tokens
    while (booking.outputTokens >= booking.nextBlockAt) this.#beginOutputBlock(booking)
    return booking.nextBlockAt - booking.outputTokens
  }

  /** Idempotent; also ends the prefill. Returns whether anything changed. */
  free(booking: Booking, nowMs: number): boolean {
    if (booking.freed) return false
    booking.freed = true
    const { slot } = booking
    const table = this.#table
    this.prefillDone(booking, nowMs)
    if (booking.node !== null) this.#addBlocks(slot, -this.#tree.remove(booking.node, slot))
    this.#addBlocks(slot, -booking.outputBlocks * booking.outputWeight)
    this.#addBlocks(slot, -booking.privateBlocks * booking.privateWeight)
    const left = (table.activeRequests[slot] as number) - 1
    table.activeRequests[slot] = left
    // A worker does not send a report if its load is unchanged.
    const sent = table.sentSinceReport[slot] as number
    if (sent > 0) table.sentSinceReport[slot] = sent - 1
    // Block weights are fractions; the last request removes the rounding error.
    if (left === 0) table.activeDecodeBlocks[slot] = 0
    this.#bookings[slot]?.delete(booking)
    return true
  }

  /** The rank has left: frees all its bookings, and returns them. */
  dropSlot(slot: number, nowMs: number): readonly Booking[] {
    const bookings = [...(this.#bookings[slot]?.values() ?? [])]
    for (const booking of bookings) this.free(booking, nowMs)
    this.#bookings[slot] = undefined
    this.#prefills[slot] = undefined
    this.#decaying.delete(slot)
    return bookings
  }

  /** Brings the columns up to date with the clock; only prefills with an expected duration change. */
  refresh(nowMs: number): void {
    for (const slot of this.#decaying) {
      this.#refreshPrefill(slot, nowMs)
      this.#onDecayed(slot)
    }
  }

  /** By slot: number of leading blocks of `hashes` that active requests on it use; `out` is cleared first. */
  depths(hashes: Uint32Array, out: Int32Array): void {
    out.fill(0)
    this.#tree.depths(hashes, out)
  }

  get isEmpty(): boolean {
    return this.#tree.isEmpty
  }

  #beginOutputBlock(booking: Booking): void {
    booking.nextBlockAt += Math.max(1, this.#blockSize())
    const expected = booking.expectedOutputTokens
    if (expected === null) this.addOutputBlock(booking)
    else this.addOutputBlock(booking, Math.max(0, 1 - booking.outputTokens / Math.max(expected, 1)))
  }

  #addBlocks(slot: number, blocks: number): void {
    const column = this.#table.activeDecodeBlocks
    column[slot] = (column[slot] as number) + blocks
  }

  #refreshPrefill(slot: number, nowMs: number): void {
    const prefill = this.#prefills[slot]
    if (prefill === undefined) return
    this.#table.activePrefillTokens[slot] = prefill.tokensAt(nowMs)
    if (prefill.isDecaying) this.#decaying.add(slot)
    else this.#decaying.delete(slot)
  }
}
