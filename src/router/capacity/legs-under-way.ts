/**
 * The prefills of this router that will need a decode place, and how long they take.
 *
 * A prefill needs one until its decode leg asks for it: at its end, or earlier where both run at once (bootstrap, or KV
 * that is fetched while the prefill runs). From then on the decode pool counts the request.
 */
const NEWEST_SHARE = 0.1

export class LegsUnderWay {
  /** Number of prefills that a decode leg follows, or runs beside, and that have not ended. */
  running = 0
  #count = 0
  readonly #bySlot = new Map<number, number>()
  /** By what restricts their decode legs; without those that nothing restricts. */
  readonly #byKey = new Map<string, number>()
  /** Moving average of the time from dispatch to the decode leg, in milliseconds. */
  #meanMs: number | null = null

  /** Number of those whose decode leg has not asked for its place. */
  get count(): number {
    return this.#count
  }

  /** 0 before the first one. */
  get meanMs(): number {
    return this.#meanMs ?? 0
  }

  countOn(slots: readonly number[]): number {
    return slots.reduce((sum, slot) => sum + (this.#bySlot.get(slot) ?? 0), 0)
  }

  countOf(key: string): number {
    return this.#byKey.get(key) ?? 0
  }

  /** `key`: equal for decode legs that may run on the same ranks; empty: on any. */
  sent(slot: number, key: string): void {
    this.running++
    this.#add(slot, key, 1)
  }

  /** The decode leg of a prefill asks for its place, or the prefill has ended before that. */
  followed(slot: number, key: string, tookMs: number): void {
    this.#add(slot, key, -1)
    this.#meanMs = (this.#meanMs ?? tookMs) * (1 - NEWEST_SHARE) + tookMs * NEWEST_SHARE
  }

  ended(): void {
    this.running--
  }

  #add(slot: number, key: string, change: 1 | -1): void {
    this.#count += change
    add(this.#bySlot, slot, change)
    if (key !== '') add(this.#byKey, key, change)
  }
}

function add<Key>(counts: Map<Key, number>, key: Key, change: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + change
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
