/**
 * One worker's card in the bucket, and its heartbeat.
 *
 * The heartbeat is a message that NATS does not store, so a full server does not stop it. The card is written when
 * it changes, after every reconnect, and periodically so that the bucket does not delete it.
 */
import { BatonError, messageOf } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'
import { encodeCardFile } from '../card-file.ts'
import type { RegistrationObserver } from '../discovery.ts'
import { unavailable } from './nats-session.ts'
import type { NatsSession } from './nats-session.ts'

interface NatsRegistrationOptions {
  readonly session: NatsSession
  readonly prefix: string
  readonly place: string
  readonly renewMs: number
  /** The card is written again every so many heartbeats. */
  readonly beatsPerCard: number
  readonly observer: RegistrationObserver
}

const ELECTION_MS = 20_000
const RETRY_MS = 250
const ATTEMPTS = 3

export class NatsRegistration implements Registration {
  readonly #options: NatsRegistrationOptions
  #card: WorkerCard
  #beat: NodeJS.Timeout | null = null
  #release: () => void = () => undefined
  #beats = 0
  #wasAway = false
  readonly #told = new Set<string>()
  #hasFailed = false
  #closed = false
  #turn: Promise<void> = Promise.resolve()

  private constructor(options: NatsRegistrationOptions, card: WorkerCard) {
    this.#options = options
    this.#card = card
  }

  /**
   * `revision`: of the expired entry to replace; 0: there is none. Rejects with `request.conflict` if the entry has
   * changed.
   */
  static async create(
    options: NatsRegistrationOptions,
    card: WorkerCard,
    revision: number,
  ): Promise<NatsRegistration> {
    const registration = new NatsRegistration(options, card)
    await registration.#claim(revision)
    registration.#release = options.session.use({
      connected: () => registration.#sendBeat(),
      up: () => registration.#onUp(),
      away: (why) => registration.#onAway(why),
      refused: (why) => registration.#tell(why),
    })
    registration.#sendBeat()
    registration.#beat = setInterval(() => registration.#onBeat(), options.renewMs)
    registration.#beat.unref()
    return registration
  }

  update(card: WorkerCard): Promise<void> {
    this.#card = { ...card, workerId: this.#card.workerId }
    return this.#inTurn(() => (this.#closed ? Promise.resolve() : this.#put()))
  }

  close(): Promise<void> {
    if (this.#closed) return this.#turn
    this.#closed = true
    this.#release()
    if (this.#beat !== null) clearInterval(this.#beat)
    // A server that is unavailable, perhaps unnoticed, cannot be told; watchers notice the missing heartbeat.
    return this.#inTurn(async () => {
      const { session, observer } = this.#options
      if (!session.isUp) return
      await this.#remove().catch((thrown: unknown) =>
        observer.renewalFailed?.(BatonError.from(thrown)),
      )
    })
  }

  /** The card that may still be in the bucket after `close`; null: this is not closed. */
  get leftCard(): WorkerCard | null {
    return this.#closed ? this.#card : null
  }

  get #text(): string {
    return encodeCardFile({ card: this.#card, machine: this.#options.place })
  }

  async #claim(revision: number): Promise<void> {
    const { session } = this.#options
    const { workerId } = this.#card
    let isRepeated = false
    await this.#trying(async () => {
      try {
        if (revision > 0) await session.bucket.update(workerId, this.#text, revision)
        else await session.bucket.create(workerId, this.#text)
      } catch (thrown) {
        if (!/wrong last sequence/i.test(messageOf(thrown))) {
          isRepeated = true
          throw thrown
        }
        // The entry may be from an attempt of ours whose answer was lost.
        const stored = await session.bucket.get(workerId)
        if (isRepeated && stored?.string() === this.#text) return
        throw new BatonError('request.conflict', `worker ${workerId} is registered already`)
      }
    }, ELECTION_MS)
  }

  #onBeat(): void {
    this.#sendBeat()
    this.#beats += 1
    if (this.#beats % this.#options.beatsPerCard === 0) this.#putSoon()
  }

  /** Also while a cluster elects the leader of the bucket: watchers at other servers would take silence for death. */
  #sendBeat(): void {
    const { session, prefix } = this.#options
    if (session.isConnected) session.connection.publish(`${prefix}.beat.${this.#card.workerId}`)
  }

  #onAway(why: string): void {
    this.#wasAway = true
    this.#tell(why)
  }

  /** Each reason once until the worker has registered again. */
  #tell(why: string): void {
    if (this.#told.has(why)) return
    this.#told.add(why)
    this.#options.observer.renewalFailed?.(unavailable(why))
  }

  /** The bucket may be new. Workers write at slightly different times. */
  #onUp(): void {
    const timer = setTimeout(
      () => {
        if (this.#closed) return
        this.#sendBeat()
        this.#putSoon()
      },
      (Math.random() * this.#options.renewMs) / 4,
    )
    timer.unref()
  }

  #putSoon(): void {
    this.#inTurn(async () => {
      if (this.#closed || !this.#options.session.isUp) return
      await this.#put()
      if (this.#wasAway) {
        this.#told.clear()
        this.#options.observer.restored?.(
          'the connection to NATS is restored; the worker has registered again',
        )
      }
      this.#wasAway = false
      this.#hasFailed = false
    }).catch((thrown: unknown) => {
      if (!this.#hasFailed) this.#options.observer.renewalFailed?.(BatonError.from(thrown))
      this.#hasFailed = true
    })
  }

  /** A deletion is an entry as well, for which a full server has no space until the card's own space is freed. */
  async #remove(): Promise<void> {
    const { session } = this.#options
    const { workerId } = this.#card
    try {
      await session.bucket.delete(workerId)
    } catch {
      await this.#trying(async () => {
        await session.erase(workerId, 'PUT')
        await session.bucket.delete(workerId)
        // Watchers have received it; without this it would occupy the place of the next card.
        await session.erase(workerId, 'DEL')
      })
    }
  }

  async #put(): Promise<void> {
    const { session } = this.#options
    await this.#trying(() => session.bucket.put(this.#card.workerId, this.#text))
  }

  /**
   * Retries, because an answer may be lost without a fault of the server. `electionMs`: how long to retry while no
   * server is responsible for the bucket, as after the death of the cluster member that was.
   */
  async #trying(work: () => Promise<unknown>, electionMs = 0): Promise<void> {
    const endMs = performance.now() + electionMs
    for (let attempt = 1; ; attempt++) {
      try {
        await work()
        return
      } catch (thrown) {
        if (thrown instanceof BatonError && thrown.code === 'request.conflict') throw thrown
        if (isUnanswered(thrown)) await this.#options.session.askForBucket()
        if (isWithoutLeader(thrown) && performance.now() < endMs) {
          await pause(RETRY_MS)
          continue
        }
        if (attempt >= ATTEMPTS || !this.#options.session.isUp) {
          throw unavailable(`the card cannot be stored: ${storageFault(thrown)}`, thrown)
        }
      }
    }
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}

/** The client library reports a bucket without a leader, and none at all, like a server without JetStream. */
function isUnanswered(thrown: unknown): boolean {
  return /jetstream is not enabled|no responders/i.test(messageOf(thrown))
}

function isWithoutLeader(thrown: unknown): boolean {
  return isUnanswered(thrown) || /timeout/i.test(messageOf(thrown))
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs)
  })
}

function storageFault(thrown: unknown): string {
  const why = messageOf(thrown)
  return /insufficient resources|resource limits/i.test(why)
    ? `${why} (raise max_memory_store of JetStream)`
    : why
}
