/**
 * The order of one rank's numbered batches, which come live and by replay: which is next, which are missing, whether
 * the publisher restarted.
 *
 * Owns: the decision, and the live batches that wait for a replay. The two ways are independent: a live batch may be
 * read after the replay that contained it, and live batches may be lost while a replay runs. So a number that was
 * applied before means a restart only if its content differs, and a gap is final only if a replay that was requested
 * after it does not fill it. An index with missing events is worse than an empty one: a gap that cannot be filled
 * clears it.
 */
import { ContentMarks } from './content-marks.ts'
import type { NumberedBatch } from './content-marks.ts'

export interface SequenceSink {
  /** In order, each batch once. */
  apply(batch: NumberedBatch): void
  /** What was applied so far is no longer valid. */
  clear(): void
}

export interface SequenceCounters {
  readonly gaps: number
  readonly restarts: number
  /** Gaps that could not be filled, so that the rank was cleared. */
  readonly losses: number
}

/** How a replay ended; `none`: the publisher offers none. */
export type ReplayEnd = 'whole' | 'failed' | 'none'

interface Waiting extends NumberedBatch {
  /** How many replays were requested after it arrived: each of them has to contain it. */
  asks: number
}

const WAITING_MAX = 10_000
/** Replays in a row that bring nothing new, after which what is missing is lost. */
const VAIN_MAX = 2
/** The same while others bring something: a publisher whose queue is full leaves out batches of a replay. */
const ASKS_MAX = 20

export class EventSequence {
  readonly #sink: SequenceSink
  readonly #marks = new ContentMarks()
  #waiting: Waiting[] = []
  #next = 0
  #isAsking = false
  /** The connection was lost, and there is no new one. */
  #isAway = false
  /** Replays have not always been empty. */
  #keepsBatches = false
  /** Of the replay that runs: its last number (-1: none yet), and how many of its batches brought something. */
  #lastReplayed = -1
  #newInReplay = 0
  /** It contained a batch that was applied before: the publisher is still the same. */
  #isProven = false
  /** The rest of it is not used. */
  #isBroken = false
  #needsAnother = false
  #vain = 0
  #gaps = 0
  #restarts = 0
  #losses = 0

  constructor(sink: SequenceSink) {
    this.#sink = sink
  }

  get counters(): SequenceCounters {
    return { gaps: this.#gaps, restarts: this.#restarts, losses: this.#losses }
  }

  /** A replay has to be requested, or runs. */
  get isAsking(): boolean {
    return this.#isAsking
  }

  /** The subscription has a connection: what was published before is requested. */
  connected(): void {
    // A replay that runs may have been answered before the subscription was in effect.
    if (this.#isAsking) this.#needsAnother = true
    this.#isAsking = true
    this.#isAway = false
  }

  /** The next publisher may be another process whose numbers happen to match. */
  disconnected(): void {
    this.#waiting = []
    this.#isAsking = false
    this.#isAway = true
    this.#vain = 0
    this.#restarted()
  }

  /**
   * A replay is requested now. Returns its first number: the batch that was applied last comes once more, because its
   * content proves that the publisher is still the same.
   */
  ask(): number {
    for (const batch of this.#waiting) batch.asks += 1
    this.#lastReplayed = -1
    this.#newInReplay = 0
    this.#isProven = false
    this.#isBroken = false
    this.#needsAnother = false
    return Math.max(0, this.#next - 1)
  }

  live(batch: NumberedBatch): void {
    // Of the publisher before; if not, the replay after the connection has it.
    if (this.#isAway) return
    if (!this.#isAsking && this.#took(batch)) return
    this.#isAsking = true
    if (this.#waiting.length === WAITING_MAX) {
      // Another replay has these; the ones after them are read live.
      this.#waiting = []
      this.#needsAnother = true
    }
    this.#waiting.push({ ...batch, asks: 0 })
  }

  replayed(batch: NumberedBatch): void {
    const { sequence } = batch
    const isFirst = this.#lastReplayed < 0
    const hasHole = !isFirst && sequence > this.#lastReplayed + 1
    this.#lastReplayed = Math.max(this.#lastReplayed, sequence)
    this.#keepsBatches = true
    if (this.#isBroken) return
    if (sequence < this.#next) {
      const content = this.#marks.compare(batch)
      if (content === 'same') this.#isProven = true
      if (content !== 'other') return
      this.#restarted()
      this.#isBroken = true
      // It was not in vain.
      this.#newInReplay += 1
      return
    }
    if (hasHole && (this.#newInReplay > 0 || this.#vain < VAIN_MAX - 1)) {
      this.#isBroken = true
      return
    }
    // The publisher has dropped its oldest batches, or it is another one.
    if (isFirst || hasHole) this.#lost()
    this.#apply(batch)
  }

  /** Applies the live batches that waited. True: another replay is needed. */
  replayEnded(end: ReplayEnd): boolean {
    if (end === 'failed') this.#isBroken = true
    // Not even the last batch, which was requested too: it is another publisher, or one that keeps none.
    const isEmpty = end === 'whole' && this.#lastReplayed < 0
    if (isEmpty && this.#keepsBatches && this.#marks.hasAny) {
      this.#lost()
      this.#needsAnother = true
    }
    this.#vain = this.#newInReplay > 0 ? 0 : this.#vain + 1
    const asks = this.#waiting[0]?.asks ?? 0
    const isLast = end === 'none' || this.#vain >= VAIN_MAX || asks > ASKS_MAX
    const isUnsure = this.#isBroken || this.#needsAnother
    this.#isAsking = (isUnsure && !isLast) || this.#mustWait(isLast)
    if (!this.#isAsking) this.#vain = 0
    return this.#isAsking
  }

  #mustWait(isLast: boolean): boolean {
    for (let batch = this.#waiting[0]; batch !== undefined; batch = this.#waiting[0]) {
      if (!this.#isForeign(batch)) {
        const isTaken = !this.#isMissing(batch) && this.#took(batch, batch.asks > 0)
        if (!isTaken && !isLast) return true
        if (!isTaken) {
          this.#lost()
          this.#apply(batch)
        }
      }
      this.#waiting.shift()
    }
    return false
  }

  /** The replay has to contain it. */
  #isAskedFor({ asks }: Waiting): boolean {
    return asks > 0 && this.#lastReplayed >= 0 && !this.#isBroken
  }

  #isMissing(batch: Waiting): boolean {
    return this.#isAskedFor(batch) && batch.sequence >= this.#next
  }

  /**
   * The publisher does not have it: it was published before a restart and read late, or before the first batch that the
   * publisher still had.
   */
  #isForeign(batch: Waiting): boolean {
    if (!this.#isAskedFor(batch)) return false
    if (batch.sequence < this.#next) return true
    return this.#isProven && (this.#newInReplay === 0 || batch.asks > ASKS_MAX)
  }

  /** False: a replay has to show what it is, or brings what comes before it. */
  #took(batch: NumberedBatch, isCounted = false): boolean {
    if (batch.sequence > this.#next) {
      if (!isCounted) this.#gaps += 1
      return false
    }
    if (batch.sequence < this.#next) {
      const content = this.#marks.compare(batch)
      if (content !== 'other') return content === 'same'
      this.#restarted()
      return this.#took(batch, true)
    }
    this.#apply(batch)
    return true
  }

  #apply(batch: NumberedBatch): void {
    this.#next = batch.sequence + 1
    this.#newInReplay += 1
    this.#marks.add(batch)
    this.#sink.apply(batch)
  }

  #restarted(): void {
    this.#restarts += 1
    this.#clear()
  }

  #lost(): void {
    if (this.#marks.hasAny) this.#losses += 1
    this.#clear()
  }

  #clear(): void {
    this.#next = 0
    this.#marks.clear()
    this.#sink.clear()
  }
}
