/** Whether discovery can be reached. While it cannot, workers that join or leave are not noticed. */
import type { Clock } from '../../base/index.ts'

export class DiscoveryState {
  readonly #clock: Clock
  #away: { readonly why: string; readonly sinceMs: number } | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  away(why: string): void {
    this.#away = { why, sinceMs: this.#away?.sinceMs ?? this.#clock.nowMs() }
  }

  back(): void {
    this.#away = null
  }

  /** Null: discovery is reachable. */
  get fault(): { readonly why: string; readonly awayMs: number } | null {
    if (this.#away === null) return null
    const { why, sinceMs } = this.#away
    return { why, awayMs: this.#clock.nowMs() - sinceMs }
  }
}
