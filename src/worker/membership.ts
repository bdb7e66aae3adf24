/**
 * A worker's entry in discovery: registered while it serves; removed while it is drained or asleep or its engine is
 * away. Each of these is a separate reason for absence; the worker rejoins when no reason is left.
 *
 * This is the only place that tells discovery about the worker. Whoever changes a reason sets the wanted state; one
 * attempt at a time brings discovery to the newest one, and a failed attempt is repeated after growing pauses until
 * one succeeds or the worker ends: a full disk or an unreachable service ends some time, and a worker that had been
 * told only once would stay out of the fleet, or in it, for ever.
 *
 * Nothing is registered after the shutdown has begun: an orphaned entry would be renewed forever and attract requests
 * to a worker that no longer exists.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, Timer } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from './worker-ports.ts'

export type AbsenceReason = 'drained' | 'asleep' | 'engine-away' | 'unwanted'

interface MembershipOptions {
  readonly clock: Clock
  readonly card: WorkerCard
  readonly register: (card: WorkerCard) => Promise<Registration>
  /** The worker has become registered, or is not any more. */
  readonly onChange?: () => void
  /** Discovery cannot be told the wanted state. Called once until it was told something again. */
  readonly onFault?: (error: BatonError, isWanted: boolean) => void
  /** After `onFault`: discovery was told the wanted state. */
  readonly onTold?: (isMember: boolean) => void
}

const PAUSE_MS_MIN = 250
const PAUSE_MS_MAX = 5_000

export class Membership {
  readonly #options: MembershipOptions
  #card: WorkerCard
  /** The card in the entry. */
  #toldCard: WorkerCard | null = null
  readonly #absences = new Set<AbsenceReason>()
  #registration: Registration | null = null
  /** Its removal has begun, so it is not renewed any more, even if the removal has failed. */
  #isEnding = false
  #isOpen = false
  /** The first registration has succeeded: from now on failed attempts are repeated. */
  #isRepeating = false
  #isClosed = false
  #hasEnded = false
  #turn: Promise<unknown> = Promise.resolve()
  /** An attempt that has not begun: it will tell the newest state, so all changes until then share it. */
  #next: Promise<BatonError | null> | null = null
  #attempts = 0
  #fault: BatonError | null = null
  #isFaultTold = false
  #pauseMs = PAUSE_MS_MIN
  #retry: Timer | null = null

  constructor(options: MembershipOptions) {
    this.#options = options
    this.#card = options.card
  }

  get card(): WorkerCard {
    return this.#card
  }

  /** From now on the worker has this card; the entry is changed without leaving. */
  setCard(card: WorkerCard): void {
    this.#card = card
    if (this.#isOpen) void this.#tell()
  }

  get isMember(): boolean {
    return this.#registration !== null
  }

  /** Not registered, and not about to be. */
  get isOut(): boolean {
    return this.#registration === null && this.#attempts === 0
  }

  /** It should be registered, and is not, or its entry is not renewed: discovery has failed, or has not answered yet. */
  get isMissing(): boolean {
    return this.#isWanted && (this.#registration === null || this.#isEnding)
  }

  /** Why discovery could not be told the wanted state, as long as that lasts. */
  get fault(): BatonError | null {
    return this.#fault
  }

  isAbsent(reason: AbsenceReason): boolean {
    return this.#absences.has(reason)
  }

  /** The first registration. Its failure is thrown and not repeated, because it is a failure of the worker's start. */
  async open(): Promise<void> {
    this.#isOpen = true
    const error = await this.#tell()
    this.#isOpen = error === null
    this.#isRepeating = error === null
    if (error !== null) throw error
  }

  /**
   * From now on the reason is there, or not. Resolves with null when discovery was told the state that was the newest
   * then, otherwise with the error of the first attempt. Either way the newest state is told until that succeeds: a
   * caller that wants to give up has to set the previous state again.
   */
  async setAbsent(reason: AbsenceReason, isAbsent: boolean): Promise<BatonError | null> {
    if (isAbsent) this.#absences.add(reason)
    else this.#absences.delete(reason)
    return this.#isOpen ? await this.#tell() : null
  }

  /** From now on the worker can only leave. */
  close(): void {
    this.#isClosed = true
  }

  /** After `close`: removes the entry. An error as of `setAbsent`. */
  leave(): Promise<BatonError | null> {
    return this.#tell()
  }

  /** The worker has ended: a failed removal is not repeated any more. */
  end(): void {
    this.#hasEnded = true
    this.#retry?.cancel()
  }

  get #isWanted(): boolean {
    return this.#isOpen && !this.#isClosed && this.#absences.size === 0
  }

  #tell(): Promise<BatonError | null> {
    if (this.#next !== null) return this.#next
    this.#attempts++
    const mine = this.#turn.then(() => {
      this.#next = null
      return this.#attempt()
    })
    this.#next = mine
    this.#turn = mine
    return mine
  }

  async #attempt(): Promise<BatonError | null> {
    this.#retry?.cancel()
    const isWanted = this.#isWanted
    try {
      if (isWanted ? this.isMissing || this.#toldCard !== this.#card : this.isMember) {
        await this.#change()
        this.#succeeded()
      }
      this.#fault = null
      return null
    } catch (thrown) {
      const error = BatonError.from(thrown, 'discovery.unavailable')
      this.#failed(error, isWanted)
      return error
    } finally {
      this.#attempts--
    }
  }

  /** An entry whose removal has begun is removed before there is a new one. */
  async #change(): Promise<void> {
    const { register, onChange } = this.#options
    const card = this.#card
    if (this.#registration !== null && this.#isWanted && !this.#isEnding) {
      await this.#registration.update(card)
      this.#toldCard = card
      onChange?.()
      return
    }
    if (this.#registration !== null) {
      this.#isEnding = true
      await this.#registration.close()
      this.#registration = null
      this.#isEnding = false
      onChange?.()
    }
    if (!this.#isWanted) return
    this.#registration = await register(card)
    this.#toldCard = card
    onChange?.()
  }

  #succeeded(): void {
    if (this.#isFaultTold) this.#options.onTold?.(this.isMember)
    this.#isFaultTold = false
    this.#pauseMs = PAUSE_MS_MIN
  }

  #failed(error: BatonError, isWanted: boolean): void {
    if (!this.#isRepeating || this.#hasEnded) return
    this.#fault = error
    this.#retry = this.#options.clock.after(this.#pauseMs, () => void this.#tell())
    this.#pauseMs = Math.min(PAUSE_MS_MAX, this.#pauseMs * 2)
    if (!this.#isFaultTold) this.#options.onFault?.(error, isWanted)
    this.#isFaultTold = true
  }
}
