/**
 * One direction of a simulated connection: messages arrive in the order in which they were sent, delayed or never.
 *
 * What is sent in one turn arrives together, like one write to a socket. Without a delay a message is delivered
 * within the call.
 */
import type { Clock, Timer } from '../../base/index.ts'
import type { NetworkDice } from './network-faults.ts'

interface Message {
  readonly atMs: number
  readonly deliver: () => void
}

export class OrderedPipe {
  readonly #clock: Clock
  readonly #dice: NetworkDice
  readonly #messages: Message[] = []
  #timer: Timer | null = null
  #sentMs = -1
  #arrivesMs = 0
  #heldUntilMs = 0

  constructor(clock: Clock, dice: NetworkDice) {
    this.#clock = clock
    this.#dice = dice
  }

  /** True when a message sent now is delivered within the call. */
  get isDirect(): boolean {
    return (
      this.#dice.isInstant &&
      this.#messages.length === 0 &&
      this.#heldUntilMs <= this.#clock.nowMs()
    )
  }

  send(deliver: () => void, extraMs = 0): void {
    if (extraMs === 0 && this.isDirect) {
      deliver()
      return
    }
    const nowMs = this.#clock.nowMs()
    if (nowMs !== this.#sentMs || extraMs > 0) {
      const from = Math.max(nowMs, this.#heldUntilMs)
      this.#arrivesMs = Math.max(this.#arrivesMs, from + this.#dice.delayMs() + extraMs)
      this.#sentMs = extraMs > 0 ? -1 : nowMs
    }
    this.#messages.push({ atMs: this.#arrivesMs, deliver })
    if (this.#timer === null) this.#arm()
  }

  /** Nothing arrives before this time; messages sent meanwhile wait. */
  hold(untilMs: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, untilMs)
  }

  /** Drops the messages in transit. */
  clear(): void {
    this.#messages.length = 0
    this.#timer?.cancel()
    this.#timer = null
    this.#arrivesMs = 0
    this.#heldUntilMs = 0
    this.#sentMs = -1
  }

  #arm(): void {
    const first = this.#messages[0]
    if (first === undefined) return
    const atMs = Math.max(first.atMs, this.#heldUntilMs)
    this.#timer = this.#clock.after(atMs - this.#clock.nowMs(), () => {
      this.#timer = null
      this.#deliver()
    })
  }

  #deliver(): void {
    const nowMs = this.#clock.nowMs()
    while (nowMs >= this.#heldUntilMs) {
      const first = this.#messages[0]
      if (first === undefined || first.atMs > nowMs) break
      this.#messages.shift()
      first.deliver()
    }
    if (this.#timer === null) this.#arm()
  }
}
