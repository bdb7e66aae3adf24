/** By slot: how many times slower each rank is than its pool. */
const MIN_CAPACITY = 16
/** Decay factor of older observations of a rank, per new observation. */
const RANK_FADE = 0.96
/**
 * The prior counts as much as this many observations of the rank: a rank that is four times as slow is known to be at
 * least twice as slow after its first prompt.
 */
const SHRINK = 0.5
/** Limit of the effect of a single observation on a rank's factor (in natural logarithms). */
const STEP_LOG = 2
/** Assumed spread of single observations of one rank (in natural logarithms): only larger differences count. */
const NOISE_LOG = 0.25
/** After this many observations per rank, the knowledge of all ranks decays, so that a slow rank is tried again. */
const AGE_EVERY = 32
const AGE_FADE = 0.8

export class RankFactors {
  values = new Float64Array(MIN_CAPACITY).fill(1)
  /** Prior of the factor, as a logarithm: 0 is the pool's average. */
  #beliefs = new Float64Array(MIN_CAPACITY)
  #logs = new Float64Array(MIN_CAPACITY)
  #counts = new Float64Array(MIN_CAPACITY)
  /** Mean logarithm over all ranks: the pool's rates are those of the average rank. */
  #middle = 0
  #ranks = 0
  #sinceAged = 0
  /** How often all values have changed at once. */
  ages = 0
  #hasLine = false

  join(slot: number): void {
    const { length } = this.values
    if (slot >= length) {
      const size = Math.max(slot + 1, 2 * length)
      this.values = grown(this.values, size)
      this.#beliefs = grown(this.#beliefs, size)
      this.#logs = grown(this.#logs, size)
      this.#counts = grown(this.#counts, size)
    }
    this.#ranks = Math.max(this.#ranks, slot + 1)
    this.values[slot] = 1
    this.#beliefs[slot] = this.#logs[slot] = this.#counts[slot] = 0
  }

  /** Sets the prior of a rank relative to the average rank, as a logarithm. */
  believe(slot: number, log: number): void {
    this.#hasLine = true
    this.#beliefs[slot] = log + this.#middle
    this.#set(slot)
  }

  countOf(slot: number): number {
    return this.#counts[slot] ?? 0
  }

  /** Factor of the rank relative to the average rank. */
  relative(slot: number): number {
    return (this.values[slot] as number) / Math.exp(this.#middle)
  }

  /** Adds an observation: the time was `ratio` times what the pool's rates predict. */
  add(slot: number, ratio: number, weight: number): void {
    // The very first observation sets the pool's rates.
    if (!this.#hasLine) {
      this.#hasLine = true
      return
    }
    const known = Math.log(this.values[slot] as number)
    const seen = known + Math.min(Math.max(Math.log(ratio) - known, -STEP_LOG), STEP_LOG)
    this.#logs[slot] = RANK_FADE * (this.#logs[slot] as number) + weight * seen
    this.#counts[slot] = RANK_FADE * (this.#counts[slot] as number) + weight
    this.#set(slot)
    this.#middle = 0.98 * this.#middle + 0.02 * Math.log(this.values[slot] as number)
    if (++this.#sinceAged >= AGE_EVERY * this.#ranks) this.#age()
  }

  #set(slot: number): void {
    const count = this.#counts[slot] as number
    const belief = this.#beliefs[slot] as number
    const difference = ((this.#logs[slot] as number) - count * belief) / (count + SHRINK)
    const chance = NOISE_LOG / Math.sqrt(count + 1)
    const shown = Math.sign(difference) * Math.max(Math.abs(difference) - chance, 0)
    this.values[slot] = Math.exp(belief + shown)
  }

  #age(): void {
    this.#sinceAged = 0
    this.ages++
    for (let slot = 0; slot < this.#ranks; slot++) {
      this.#logs[slot] = AGE_FADE * (this.#logs[slot] as number)
      this.#counts[slot] = AGE_FADE * (this.#counts[slot] as number)
      this.#set(slot)
    }
  }
}

function grown(from: Float64Array<ArrayBuffer>, size: number): Float64Array<ArrayBuffer> {
  const to = new Float64Array(size)
  to.set(from)
  return to
}
