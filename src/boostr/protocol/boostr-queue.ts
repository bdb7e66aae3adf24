/** The requests of a router that wait until a worker is free, in order; each has a deadline. */
import { BatonError } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { BoostrReply, BoostrRoute } from './boostr-route.ts'

export interface Queued {
  readonly route: BoostrRoute
  readonly reply: BoostrReply
}

export interface BoostrQueueOptions {
  readonly clock: Clock
  readonly max: number
  readonly waitMs: number
}

export class BoostrQueue {
  readonly #options: BoostrQueueOptions
  readonly #waiting: (Queued & { readonly timer: Timer })[] = []

  constructor(options: BoostrQueueOptions) {
    this.#options = options
  }

  get length(): number {
    return this.#waiting.length
  }

  get first(): Queued | undefined {
    return this.#waiting[0]
  }

  /** False: too many wait. */
  push({ route, reply }: Queued): boolean {
    const { clock, max, waitMs } = this.#options
    if (this.#waiting.length >= max) return false
    const timer = clock.after(waitMs, () => {
      this.remove(reply)
      const data = { stage: 'queue' }
      const text = 'no worker became free in time'
      reply.onError(new BatonError('request.deadline_exceeded', text, { data }))
    })
    this.#waiting.push({ route, reply, timer })
    return true
  }

  /** Undefined: it does not wait here. */
  remove(reply: BoostrReply): Queued | undefined {
    const position = this.#waiting.findIndex((queued) => queued.reply === reply)
    if (position === -1) return undefined
    const [removed] = this.#waiting.splice(position, 1)
    removed?.timer.cancel()
    return removed
  }

  clear(reason: BatonError): void {
    for (const { reply, timer } of this.#waiting.splice(0)) {
      timer.cancel()
      reply.onError(reason)
    }
  }
}
