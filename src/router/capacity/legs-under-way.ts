/**
 * The prefills of this router that will need a decode place, and how long they take.
 *
 * A prefill needs one until its decode leg asks for it: at its end, or earlier where both run at once (bootstrap, or KV
 * that is fetched while the prefill runs). From then on the decode pool counts the request.
 */
import type { RankGroup } from '../ranks/rank-group.ts'
import { GroupLoads } from './group-loads.ts'

const NEWEST_SHARE = 0.1

export class LegsUnderWay {
  /** Number of prefills that a decode leg follows, or runs beside, and that have not ended. */
  running = 0
  /** Those whose decode leg has not asked for its place, by the decode ranks where it may run. */
  readonly waiting = new GroupLoads()
  /** Moving average of the time from dispatch to the decode leg, in milliseconds. */
  #meanMs: number | null = null

  /** 0 before the first one. */
  get meanMs(): number {
    return this.#meanMs ?? 0
  }

  sent(group: RankGroup): void {
    this.running++
    this.waiting.add(group, 1)
  }

  /** The decode leg of a prefill asks for its place, or the prefill has ended before that. */
  followed(group: RankGroup, tookMs: number): void {
    this.waiting.add(group, -1)
    this.#meanMs = (this.#meanMs ?? tookMs) * (1 - NEWEST_SHARE) + tookMs * NEWEST_SHARE
  }

  ended(): void {
    this.running--
  }
}
