/**
 * Predicts how many more turns of a session follow a prompt, and how many sessions have their next turn on which
 * rank.
 *
 * A session continues where its KV is cached, so placing one turn also places the later ones. Clients do not announce
 * turns: the end hash of every prompt is marked, and a prompt that continues from a mark is the next turn of that
 * session. A mark that nothing has continued for long was the last turn. From this the probability of a next turn is
 * learned, separately for first and later turns and for requests with and without a session id.
 *
 * Bounded: the oldest marks are dropped, and of two marks with the same place in the hash table the newer one stays.
 */
import type { SequenceHashes } from '../../kv/index.ts'

const MIN_CAPACITY = 16
const MARKS = 1 << 14
const PLACES = 1 << 16
/** Decay factor of older observations, per new observation. */
const FADE = 0.99
/**
 * Prior probability of a next turn for requests with a session id; without one the prior is 0. The prior counts as
 * `BELIEF_WEIGHT` observations.
 */
const NAMED_BELIEF = 0.8
const BELIEF_WEIGHT = 4
/** A session has ended if it is silent for this many times the usual cycle, and at least for `SILENT_MS`. */
const SILENT_TIMES = 4
const SILENT_MS = 2000
const GUESS_CYCLE_MS = 5000
/** Limits `expected` to three further turns: the load beyond that is too uncertain. */
const AGAIN_MAX = Math.sqrt(0.75)
/** Kinds of turns, as a bit set: later (not the first) turn, named session. */
const KINDS = 4
const NAMED = 2
const LATER = 1

/** States of a mark. */
const OPEN = 1
const FOUND = 2

/** The turn of a session that a prompt is. */
export interface Turn {
  readonly kind: number
  /** Mark of the session's previous turn; −1: there is none. */
  readonly mark: number
}

export class LaterTurns {
  /** By slot: expected number of sessions whose next turn goes there, each weighted by its probability. */
  bound = new Float64Array(MIN_CAPACITY)
  /** Average time from one turn of a session to the next. */
  cycleMs = GUESS_CYCLE_MS
  /** Average number of tokens that a prompt has more than the one of the previous turn. */
  newTokens = 0
  #turns = 0
  readonly #again = new Float64Array(KINDS)
  readonly #last = new Float64Array(KINDS)
  /** Marks whose outcome is not counted yet, and how many of them have been continued. */
  readonly #marked = new Int32Array(KINDS)
  readonly #foundEarly = new Int32Array(KINDS)
  // A ring of marks in columns, allocated with the first one; `#places` maps a hash to the ring position + 1.
  #low = new Uint32Array(0)
  #high = new Uint32Array(0)
  #slot = new Int32Array(0)
  #sentMs = new Float64Array(0)
  #weight = new Float64Array(0)
  #blocks = new Int32Array(0)
  #kind = new Uint8Array(0)
  #state = new Uint8Array(0)
  #places = new Int32Array(0)
  /** A bit for each place that is taken: a prompt has hundreds of hashes, and nearly all of them are nobody's end. */
  #taken = new Uint32Array(0)
  #first = 0
  #count = 0

  /** A new rank uses this slot. */
  join(slot: number): void {
    if (slot >= this.bound.length) {
      const bound = new Float64Array(Math.max(slot + 1, 2 * this.bound.length))
      bound.set(this.bound)
      this.bound = bound
    }
    this.bound[slot] = 0
  }

  leave(slot: number): void {
    this.bound[slot] = 0
    for (let mark = 0; mark < this.#slot.length; mark++) {
      if (this.#slot[mark] === slot) this.#slot[mark] = -1
    }
  }

  find({ sequence }: SequenceHashes, isNamed: boolean): Turn {
    const first = isNamed ? NAMED : 0
    const mark = this.#count === 0 ? -1 : this.#markIn(sequence)
    return { kind: mark === -1 ? first : first + LATER, mark }
  }

  /** The mark with the longest matching prefix. */
  #markIn(sequence: Uint32Array): number {
    const [places, state, taken] = [this.#places, this.#state, this.#taken]
    for (let at = sequence.length - 2; at >= 0; at -= 2) {
      const low = sequence[at] as number
      const place = low & (PLACES - 1)
      if ((((taken[place >>> 5] as number) >>> (place & 31)) & 1) === 0) continue
      const mark = (places[place] as number) - 1
      if (mark < 0 || state[mark] !== OPEN || this.#low[mark] !== low) continue
      if (this.#high[mark] === sequence[at + 1]) return mark
    }
    return -1
  }

  /**
   * How many later turns count for the placement of this one. Sessions already on a rank also end, so the k-th turn
   * counts with the probability that both sessions get that far.
   */
  expected({ kind }: Turn): number {
    const again = this.#rate(kind | LATER)
    return (this.#rate(kind) * again) / (1 - again * again)
  }

  /** The rank of the previous turn; −1: none. */
  slotOf({ mark }: Turn): number {
    return mark === -1 || this.#state[mark] !== OPEN ? -1 : (this.#slot[mark] as number)
  }

  /** The session's own share of `bound` on that rank. */
  weightOf({ mark }: Turn): number {
    return mark === -1 ? 0 : (this.#weight[mark] as number)
  }

  sent({ slot, hashes, turn, overlapBlocks }: SentTurn, blockTokens: number, nowMs: number): void {
    if (turn === null || hashes === null) return
    this.#forgetSilent(nowMs)
    const { sequence } = hashes
    const blocks = sequence.length / 2
    const { mark, kind } = turn
    if (mark !== -1 && this.#state[mark] === OPEN) {
      const gain = Math.max(1 - FADE, 1 / ++this.#turns)
      const more = Math.max(blocks - (this.#blocks[mark] as number), 0) * blockTokens
      this.cycleMs += gain * (nowMs - (this.#sentMs[mark] as number) - this.cycleMs)
      this.newTokens += gain * (more - this.newTokens)
      this.#close(mark)
      this.#state[mark] = FOUND
      const before = this.#kind[mark] as number
      this.#foundEarly[before] = (this.#foundEarly[before] as number) + 1
    }
    if (overlapBlocks >= blocks) return
    const made = this.#add(slot, kind, nowMs)
    const low = sequence[2 * blocks - 2] as number
    this.#low[made] = low
    this.#high[made] = sequence[2 * blocks - 1] as number
    this.#blocks[made] = blocks
    this.#place(low & (PLACES - 1), made + 1)
  }

  /** Probability that another turn follows a turn of this kind. */
  #rate(kind: number): number {
    const again = this.#again[kind] as number
    const belief = kind >= NAMED ? NAMED_BELIEF : 0
    const all = again + (this.#last[kind] as number)
    const learned = (again + BELIEF_WEIGHT * belief) / (all + BELIEF_WEIGHT)
    // Lower bound from the turns that have already been continued.
    const [marked, found] = [this.#marked[kind] as number, this.#foundEarly[kind] as number]
    const least = (again + found) / (all + marked + BELIEF_WEIGHT)
    return Math.min(Math.max(learned, least), AGAIN_MAX)
  }

  #add(slot: number, kind: number, nowMs: number): number {
    if (this.#places.length === 0) this.#reserve()
    if (this.#count === MARKS) this.#forgetFirst(false)
    const mark = (this.#first + this.#count++) % MARKS
    const weight = this.#rate(kind)
    this.#slot[mark] = slot
    this.#sentMs[mark] = nowMs
    this.#kind[mark] = kind
    this.#state[mark] = OPEN
    this.#weight[mark] = weight
    this.#marked[kind] = (this.#marked[kind] as number) + 1
    this.bound[slot] = (this.bound[slot] as number) + weight
    return mark
  }

  #close(mark: number): void {
    const slot = this.#slot[mark] as number
    if (slot === -1) return
    this.bound[slot] = Math.max((this.bound[slot] as number) - (this.#weight[mark] as number), 0)
  }

  #forgetSilent(nowMs: number): void {
    const before = nowMs - Math.max(SILENT_TIMES * this.cycleMs, SILENT_MS)
    while (this.#count > 0 && (this.#sentMs[this.#first] as number) < before) {
      this.#forgetFirst(true)
    }
  }

  /**
   * Outcomes are counted only when a mark expires, also for continued marks; otherwise fast sessions would be
   * over-represented at first.
   */
  #forgetFirst(isSilent: boolean): void {
    const mark = this.#first
    const [kind, isFound] = [this.#kind[mark] as number, this.#state[mark] === FOUND]
    if (isFound || isSilent) {
      this.#again[kind] = FADE * (this.#again[kind] as number) + Number(isFound)
      this.#last[kind] = FADE * (this.#last[kind] as number) + Number(!isFound)
    }
    this.#marked[kind] = (this.#marked[kind] as number) - 1
    if (isFound) this.#foundEarly[kind] = (this.#foundEarly[kind] as number) - 1
    else this.#close(mark)
    this.#state[mark] = 0
    const place = (this.#low[mark] as number) & (PLACES - 1)
    if (this.#places[place] === mark + 1) this.#place(place, 0)
    this.#first = (mark + 1) % MARKS
    this.#count--
  }

  #reserve(): void {
    this.#low = new Uint32Array(MARKS)
    this.#high = new Uint32Array(MARKS)
    this.#slot = new Int32Array(MARKS).fill(-1)
    this.#sentMs = new Float64Array(MARKS)
    this.#weight = new Float64Array(MARKS)
    this.#blocks = new Int32Array(MARKS)
    this.#kind = new Uint8Array(MARKS)
    this.#state = new Uint8Array(MARKS)
    this.#places = new Int32Array(PLACES)
    this.#taken = new Uint32Array(PLACES / 32)
  }

  #place(place: number, markPlus1: number): void {
    this.#places[place] = markPlus1
    const [word, bit] = [place >>> 5, 1 << (place & 31)]
    const bits = this.#taken[word] as number
    this.#taken[word] = markPlus1 === 0 ? bits & ~bit : bits | bit
  }
}

interface SentTurn {
  readonly slot: number
  /** Null: the request is not tracked. */
  readonly hashes: SequenceHashes | null
  readonly turn: Turn | null
  /**
   * Cached blocks of the prompt on the rank. If the whole prompt was cached, its end is not marked: a continuation
   * could belong to any session with that prefix.
   */
  readonly overlapBlocks: number
}
