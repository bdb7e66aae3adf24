/**
 * A worker's entry in discovery, which comes and goes: registered when it serves, gone while it drains or sleeps or its engine
 * is away. Each of these is a reason of its own: it comes back when none is left.
 *
 * Coming and going take turns, and nothing is registered once the worker shuts down: an entry that nobody holds any more
 * would be renewed for ever and send requests to a worker that is not there.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from './worker-ports.ts'

export type AbsenceReason = 'drained' | 'asleep' | 'engine-away' | 'unwanted'

export class Membership {
  readonly #register: (card: WorkerCard) => Promise<Registration>
  readonly #card: WorkerCard
  readonly #onChange: () => void
  #registration: Registration | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #joining = 0
  readonly #absences = new Set<AbsenceReason>()
  #isClosed = false

  /** `onChange`: it is registered now, or no longer. */
  constructor(
    register: (card: WorkerCard) => Promise<Registration>,
    card: WorkerCard,
    onChange: () => void = () => undefined,
  ) {
    this.#register = register
    this.#card = card
    this.#onChange = onChange
  }

  get isMember(): boolean {
    return this.#registration !== null
  }

  /** Not registered, and not about to be. */
  get isOut(): boolean {
    return this.#registration === null && this.#joining === 0
  }

  /**
   * Idempotent. `ended` is no reason any more; with another one it stays out. Rejects with `request.conflict` after `close`.
   */
  async join(ended?: AbsenceReason): Promise<void> {
    this.#joining++
    try {
      await this.#inTurn(async () => {
        if (ended !== undefined) this.#absences.delete(ended)
        if (this.#absences.size > 0) return
        if (this.#isClosed) throw new BatonError('request.conflict', 'the worker is going down')
        if (this.#registration !== null) return
        this.#registration = await this.#register(this.#card)
        this.#onChange()
      })
    } finally {
      this.#joining--
    }
  }

  /** Idempotent. When it rejects, the worker counts as registered still: a second try makes sense. */
  async leave(reason?: AbsenceReason): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#registration !== null) {
        await this.#registration.close()
        this.#registration = null
        this.#onChange()
      }
      if (reason !== undefined) this.#absences.add(reason)
    })
  }

  /** From now on it can only leave. */
  close(): void {
    this.#isClosed = true
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}
