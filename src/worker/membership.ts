/**
 * A worker's entry in discovery, which comes and goes: registered when it serves, gone while it drains or sleeps.
 */
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from './worker-ports.ts'

export class Membership {
  readonly #register: (card: WorkerCard) => Promise<Registration>
  readonly #card: WorkerCard
  #registration: Registration | null = null

  constructor(register: (card: WorkerCard) => Promise<Registration>, card: WorkerCard) {
    this.#register = register
    this.#card = card
  }

  get isMember(): boolean {
    return this.#registration !== null
  }

  /** Idempotent. */
  async join(): Promise<void> {
    this.#registration ??= await this.#register(this.#card)
  }

  /** Idempotent. When it rejects, the worker counts as registered still: a second try makes sense. */
  async leave(): Promise<void> {
    await this.#registration?.close()
    this.#registration = null
  }
}
