/**
 * A worker's entry in discovery: registered while it serves; removed while it is drained or asleep or its engine is
 * away. Each of these is a separate reason for absence; the worker rejoins when no reason is left.
 *
 * Joining and leaving are serialised, and nothing is registered after the shutdown has begun: an orphaned entry would
 * be renewed forever and attract requests to a worker that no longer exists.
 */
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from './worker-ports.ts'

type AbsenceReason = 'drained' | 'asleep' | 'engine-away' | 'unwanted'

export class Membership {
  readonly #register: (card: WorkerCard) => Promise<Registration>
  readonly #card: WorkerCard
  readonly #onChange: () => void
  #registration: Registration | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #joining = 0
  readonly #absences = new Set<AbsenceReason>()
  #isClosed = false

  /** `onChange` is called with whether the worker is registered. */
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
   * Idempotent. Removes the reason `ended`; with another reason the worker stays out. Rejects with `request.conflict`
   * after `close`.
   */
  async join(ended?: AbsenceReason): Promise<void> {
    this.#joining++
    try {
      await this.#inTurn(async () => {
        if (ended !== undefined) this.#absences.delete(ended)
        if (this.#absences.size > 0) return
        if (this.#isClosed) throw new BatonError('request.conflict', 'the worker is shutting down')
        if (this.#registration !== null) return
        this.#registration = await this.#register(this.#card)
        this.#onChange()
      })
    } finally {
      this.#joining--
    }
  }

  /** Idempotent. If it rejects, the worker still counts as registered, and a second try is possible. */
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

  /** From now on the worker can only leave. */
  close(): void {
    this.#isClosed = true
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}
