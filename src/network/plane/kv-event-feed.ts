/**
 * The KV events for one frontend: those that happen, and snapshots.
 *
 * A snapshot is written in parts, with everything else between them. A PING follows each part, and only a few parts
 * are on their way before the frontend has answered: otherwise the buffers of the connection would be full of blocks,
 * and tokens would arrive late. Events between the parts are sent as the snapshot says (`KvSnapshot.follow`).
 *
 * Parts and events share the numbers of their rank, because a frontend expects a batch to have the number after the
 * last one. So the numbers of a connection differ from those of the worker, but a lost batch still leaves a gap.
 */
import type { KvEventBatch } from '../../kv/index.ts'
import { workOfBatch } from '../../wire/index.ts'
import type { KvSnapshot } from '../../wire/index.ts'
import type { SharedTurns, TurnTask } from '../link/shared-turns.ts'
import type { WireSocket } from '../link/wire-socket.ts'

/** Parts that the frontend has not confirmed. With fewer, a snapshot to a distant frontend would take too long. */
const PARTS_AHEAD = 4
/** Work of a part without events: the worker has looked for them. */
const EMPTY_PART = 256

export interface KvEventFeedOptions {
  readonly wire: WireSocket
  readonly turns: SharedTurns
  /** Absent: the worker has no snapshots. */
  readonly begin: (() => KvSnapshot) | undefined
  readonly write: (batch: KvEventBatch) => void
  /** Above this many unsent bytes events are dropped and replaced by a snapshot later. */
  readonly unsentBytesMax: number
}

export class KvEventFeed implements TurnTask {
  readonly #options: KvEventFeedOptions
  /** One snapshot, however often it was asked for in this turn. */
  #isDue = false
  #snapshot: KvSnapshot | null = null
  #hasMissed = false
  /** When the PINGs after the unconfirmed parts were sent. */
  readonly #unconfirmed: number[] = []
  /** Rank → by how much numbers here are higher than the worker's. */
  readonly #shifts = new Map<number, number>()

  constructor(options: KvEventFeedOptions) {
    this.#options = options
  }

  /** A snapshot was asked for and is not complete yet. */
  get isBusy(): boolean {
    return this.#isDue || this.#snapshot !== null
  }

  get wantsTurn(): boolean {
    return this.#isDue || (this.#snapshot !== null && this.#unconfirmed.length < PARTS_AHEAD)
  }

  /** Another snapshot from its beginning; ends the one in progress. */
  ask(): void {
    if (this.#options.begin === undefined) {
      this.#hasMissed = false
      return
    }
    this.#end()
    this.#isDue = true
    this.#options.turns.add(this)
  }

  send(batch: KvEventBatch): void {
    // The snapshot will contain them.
    if (this.#isDue) return
    if (this.#hasMissed || this.#leavesUnread) {
      this.#hasMissed = true
      this.#end()
      return
    }
    const events = this.#snapshot?.follow(batch) ?? batch.events
    if (events.length === 0 && batch.events.length > 0) this.#shift(batch.dpRank, -1)
    else this.#write({ ...batch, events })
  }

  step(sizeMax: number): number {
    if (this.#isDue) this.#begin()
    let size = 0
    while (size < sizeMax && this.#snapshot !== null && this.#unconfirmed.length < PARTS_AHEAD) {
      const part = this.#snapshot.next()
      if (part === null) this.#complete()
      else size += this.#writePart(part)
    }
    if (size > 0) this.#options.wire.flush()
    return size
  }

  /** The frontend has received everything written before the PING that was sent then. */
  onPong(sentAtMs: number): void {
    while (this.#unconfirmed.length > 0 && (this.#unconfirmed[0] as number) <= sentAtMs) {
      this.#unconfirmed.shift()
    }
    if (this.wantsTurn) this.#options.turns.add(this)
  }

  onDrain(): void {
    if (this.#hasMissed) this.ask()
  }

  close(): void {
    this.#isDue = false
    this.#end()
    this.#options.turns.remove(this)
  }

  get #leavesUnread(): boolean {
    return this.#options.wire.unsentBytes > this.#options.unsentBytesMax
  }

  #begin(): void {
    this.#isDue = false
    this.#hasMissed = this.#leavesUnread
    if (!this.#hasMissed) this.#snapshot = this.#options.begin?.() ?? null
  }

  /** The frontend's PING is answered only now, because it asks for everything before the answer. */
  #complete(): void {
    this.#end()
    this.#options.wire.answerPing()
  }

  #end(): void {
    this.#snapshot?.close()
    this.#snapshot = null
  }

  #writePart(part: KvEventBatch): number {
    const { events, dpRank } = part
    if (events.length === 0) return EMPTY_PART
    // A batch that begins with `cleared` may have any number.
    if (events[0]?.kind !== 'cleared') this.#shift(dpRank, 1)
    this.#write(part)
    this.#unconfirmed.push(this.#options.wire.ping())
    return workOfBatch(part)
  }

  #write(batch: KvEventBatch): void {
    const shift = this.#shifts.get(batch.dpRank) ?? 0
    this.#options.write(shift === 0 ? batch : { ...batch, sequence: batch.sequence + shift })
  }

  #shift(dpRank: number, by: number): void {
    this.#shifts.set(dpRank, (this.#shifts.get(dpRank) ?? 0) + by)
  }
}
