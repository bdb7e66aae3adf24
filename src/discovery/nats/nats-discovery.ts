/**
 * Discovery over NATS JetStream, for fleets of many machines: cards in a bucket, heartbeats as messages.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { isProcessAlive, processPlace } from '../../os/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'
import { decodeCardFile, isSameWorker } from '../card-file.ts'
import type { NatsAddress } from './nats-address.ts'
import type {
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  PeerChannel,
  RegistrationObserver,
} from '../discovery.ts'
import { leaseOf } from '../lease.ts'
import type { Lease } from '../lease.ts'
import { NatsPeers } from './nats-peers.ts'
import { NatsRegistration } from './nats-registration.ts'
import { NatsSession, unavailable } from './nats-session.ts'
import { NatsWatch } from './nats-watch.ts'

export interface NatsDiscoveryOptions {
  readonly address: NatsAddress
  /** An entry without a heartbeat for this time has expired. */
  readonly ttlMs?: number
  readonly pollMs?: number
  /** Where this process's id is valid; absent: determined from the system. For tests. */
  readonly place?: string
  /** How long a registration waits for an unavailable server. */
  readonly registerMs?: number
}

/** The bucket deletes a card that is not written again after this many times to live. */
const BUCKET_TTLS = 10
const BEATS_PER_CARD = 10
const READ_AGAIN_TTLS = 5
const REGISTER_MS = 120_000
const REGISTER_AGAIN_MS = 500
/** The client library's names of errors that say that no server answered; also a restarted one without its bucket. */
const SILENCE: ReadonlySet<string> = new Set([
  'TimeoutError',
  'NoResponders',
  'RequestError',
  'ConnectionError',
  'ClosedConnectionError',
  'DrainingConnectionError',
  'StreamNotFoundError',
])

export class NatsDiscovery implements Discovery {
  readonly #lease: Lease
  readonly #prefix: string
  readonly #place: string
  readonly #session: NatsSession
  /** Also closed ones, until the id is registered again. */
  readonly #registrations = new Map<WorkerId, NatsRegistration>()
  /** Cards that may be in the bucket, although storing them failed: the answer may have been lost. */
  readonly #lost = new Map<WorkerId, WorkerCard>()
  readonly #watches = new Set<NatsWatch>()
  readonly #registerMs: number
  #peers: NatsPeers | null = null
  #closed = false

  constructor(options: NatsDiscoveryOptions) {
    const { address } = options
    this.#lease = leaseOf(options.ttlMs, options.pollMs)
    this.#registerMs = options.registerMs ?? REGISTER_MS
    this.#prefix = address.prefix
    this.#place = options.place ?? processPlace()
    this.#session = new NatsSession({
      address,
      bucket: 'workers',
      // In memory, because the bucket contains nothing that the workers do not know themselves. A card that is not
      // renewed is deleted, and watchers are not told about that deletion.
      bucketOptions: { storage: 'memory', ttl: this.#lease.ttlMs * BUCKET_TTLS },
      // One renewal may fail.
      keepMs: 2 * this.#lease.renewMs * BEATS_PER_CARD,
      pingMs: this.#lease.renewMs,
      askMs: this.#lease.ttlMs,
    })
  }

  /** Waits for an unavailable server, so that a worker need not be started again when NATS is back. */
  async register(card: WorkerCard, observer: RegistrationObserver = {}): Promise<Registration> {
    const endMs = performance.now() + this.#registerMs
    // The loss of a connection was reported to the registrations of that time, perhaps none.
    const { awayReason } = this.#session
    if (awayReason !== null && this.#registrations.size > 0)
      observer.renewalFailed?.(unavailable(awayReason))
    for (;;) {
      try {
        return await this.#registerNow(card, observer)
      } catch (thrown) {
        const error = BatonError.from(thrown, 'discovery.unavailable')
        if (!isSilence(error) || this.#closed || performance.now() > endMs) throw error
        await this.#session.askForBucket()
        await new Promise((resolve) => setTimeout(resolve, REGISTER_AGAIN_MS))
      }
    }
  }

  async #registerNow(card: WorkerCard, observer: RegistrationObserver): Promise<Registration> {
    await this.#opened((why) => observer.renewalFailed?.(unavailable(why)))
    const revision = await this.#deadRevision(card.workerId)
    const options = {
      session: this.#session,
      prefix: this.#prefix,
      place: this.#place,
      renewMs: this.#lease.renewMs,
      beatsPerCard: BEATS_PER_CARD,
      observer,
    }
    try {
      const registration = await NatsRegistration.create(options, card, revision)
      this.#registrations.set(card.workerId, registration)
      this.#lost.delete(card.workerId)
      return registration
    } catch (thrown) {
      this.#lost.set(card.workerId, card)
      throw thrown
    }
  }

  async watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    let isAway = false
    await this.#opened((why) => {
      isAway = true
      observer.discoveryAway?.(why)
    })
    if (isAway) observer.discoveryBack?.()
    const { ttlMs, pollMs } = this.#lease
    const [session, prefix, place] = [this.#session, this.#prefix, this.#place]
    const readAgainMs = ttlMs * READ_AGAIN_TTLS
    const watch = new NatsWatch({ session, prefix, place, ttlMs, pollMs, readAgainMs }, observer)
    this.#watches.add(watch)
    await watch.open()
    return watch
  }

  /** Waits for a server. `onAway` is called once per reason while none is available. */
  async #opened(onAway: (why: string) => void): Promise<void> {
    const release = this.#session.use({ up: () => undefined, away: onAway })
    try {
      await this.#session.open()
    } finally {
      release()
    }
  }

  peers(): PeerChannel {
    this.#peers ??= new NatsPeers(this.#session, this.#prefix)
    return this.#peers
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const watch of this.#watches) watch.close()
    this.#watches.clear()
    const registrations = [...this.#registrations.values()]
    this.#registrations.clear()
    await Promise.all(
      registrations.map((registration) => registration.close().catch(() => undefined)),
    )
    await this.#session.close()
  }

  /**
   * The revision of an expired entry under this id; 0 when there is none. Throws `request.conflict` when its owner
   * is alive; for an owner on another machine only a heartbeat shows that, which takes up to the time to live. What this
   * process has left behind has no owner any more.
   */
  async #deadRevision(workerId: WorkerId): Promise<number> {
    const entry = await this.#session.bucket.get(workerId)
    if (entry === null || entry.operation !== 'PUT') return 0
    const before = this.#registrations.get(workerId)
    const left = [this.#lost.get(workerId), before?.leftCard]
    if (before?.leftCard !== null && left.some((card) => this.#isOf(card, entry.string())))
      return entry.revision
    if (await this.#isOwnerAlive(workerId, entry.string())) {
      throw new BatonError('request.conflict', `worker ${workerId} is registered already`)
    }
    return entry.revision
  }

  #isOf(own: WorkerCard | null | undefined, text: string): boolean {
    if (own === null || own === undefined) return false
    try {
      const { card, machine } = decodeCardFile(text)
      return isSameWorker(card, own) && machine === this.#place && card.port === own.port
    } catch {
      return false
    }
  }

  async #isOwnerAlive(workerId: string, text: string): Promise<boolean> {
    try {
      const { card, machine } = decodeCardFile(text)
      if (machine === this.#place && card.pid !== undefined) return isProcessAlive(card.pid)
    } catch {
      return false
    }
    return await new Promise<boolean>((resolve) => {
      const heard = this.#session.connection.subscribe(`${this.#prefix}.beat.${workerId}`, {
        callback: (refusal) => finish(refusal === null),
      })
      const timer = setTimeout(() => finish(false), this.#lease.ttlMs)
      const finish = (isAlive: boolean): void => {
        clearTimeout(timer)
        if (!heard.isClosed()) heard.unsubscribe()
        resolve(isAlive)
      }
    })
  }
}

/** True when the server did not answer. A refusal (for example a full server) is not solved by waiting. */
export function isSilence({ code, cause }: BatonError): boolean {
  if (code !== 'discovery.unavailable') return false
  if (cause instanceof BatonError) return isSilence(cause)
  // Without a cause, the session itself says that it is not connected.
  return cause === undefined || (cause instanceof Error && SILENCE.has(cause.name))
}
