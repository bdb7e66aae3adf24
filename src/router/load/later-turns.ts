/**
 * How many more turns follow a prompt, and how many sessions have their next turn at which rank.
 *
 * A session goes on where its KV is, so the place of one turn is that of those behind it. Nobody says how many there will be:
 * the end of every prompt is marked, and a prompt that goes on behind it is its next turn. A mark that nobody has gone on
 * from for long was a last turn. So it is learned how often another turn comes, apart for first turns and later ones, and for
 * requests that name a session and those that do not.
 *
 * Bounded: the oldest marks are forgotten, and of two whose hashes have the same place in the table the newer one stays.
 */
import type { BlockHashes } from '../../kv/index.ts'

const MIN_CAPACITY = 16
const MARKS = 1 << 14
const PLACES = 1 << 16
/** What an observation counts after the next one. */
const FADE = 0.99
/** Before anything is known: who names a session has more to say, of others nothing is expected. It counts as so many observations. */
const NAMED_BELIEF = 0.8
const BELIEF_WEIGHT = 4
/** Who has been silent for so many times what is usual, and for so long at least, has ended. */
const SILENT_TIMES = 4
const SILENT_MS = 2000
const GUESS_CYCLE_MS = 5000
/** Three further turns count at most (see `expected`): what is beyond them is another day's load. */
const AGAIN_MAX = Math.sqrt(0.75)
/** Kinds: first turns and later ones, and the same of named sessions. */
const KINDS = 4
const NAMED = 2
const LATER = 1

/** States of a mark. */
const OPEN = 1
const FOUND = 2

/** Where a prompt stands in its session. */
export interface Turn {
  readonly kind: number
  /** Of the turn before; −1: there is none. */
  readonly mark: number
}

export class LaterTurns {
  /** By slot: sessions whose next turn is expected there, each as likely as it is to come. */
  bound = new Float64Array(MIN_CAPACITY)
  /** From one turn of a session to the next one. */
  cycleMs = GUESS_CYCLE_MS
  /** What a prompt has more than the one before it. */
  newTokens = 0
  #turns = 0
  readonly #again = new Float64Array(KINDS)
  readonly #last = new Float64Array(KINDS)
  /** Marks whose outcome is not counted yet, and those of them that are found. */
  readonly #marked = new Int32Array(KINDS)
  readonly #foundEarly = new Int32Array(KINDS)
  // A ring of marks in columns, made with the first one; and by hash the place in it plus 1.
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

  /** A new rank has this slot. */
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

  find({ sequence }: BlockHashes, isNamed: boolean): Turn {
    const first = isNamed ? NAMED : 0
    const mark = this.#count === 0 ? -1 : this.#markIn(sequence)
    return { kind: mark === -1 ? first : first + LATER, mark }
  }

  /** The mark that is furthest on. */
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
   * For how many turns behind this one it counts where it goes. A rank that has more sessions than others has them only until
   * those have ended, too: the k-th turn counts as likely as both are to get there.
   */
  expected({ kind }: Turn): number {
    const again = this.#rate(kind | LATER)
    return (this.#rate(kind) * again) / (1 - again * again)
  }

  /** The rank that the turn before went to; −1: none. */
  slotOf({ mark }: Turn): number {
    return mark === -1 || this.#state[mark] !== OPEN ? -1 : (this.#slot[mark] as number)
  }

  /** What the session itself is of `bound` there. */
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

  /** How likely a turn of this kind is followed by another one. */
  #rate(kind: number): number {
    const again = this.#again[kind] as number
    const belief = kind >= NAMED ? NAMED_BELIEF : 0
    const all = again + (this.#last[kind] as number)
    const learned = (again + BELIEF_WEIGHT * belief) / (all + BELIEF_WEIGHT)
    // Whoever has gone on already: it is that likely at least.
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

  /** Counted only now, the found ones as well: at first just those would be known that are followed soon. */
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

export interface SentTurn {
  readonly slot: number
  /** Null: it is not counted. */
  readonly hashes: BlockHashes | null
  readonly turn: Turn | null
  /** What the rank held. Not its end: who goes on behind it goes on with this session, and not with a prefix that many have. */
  readonly overlapBlocks: number
}
