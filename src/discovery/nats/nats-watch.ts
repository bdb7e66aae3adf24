/**
 * Follows the bucket of cards and the heartbeats of workers.
 *
 * After each (re)connect, and from time to time, it starts one watch and reads one snapshot. An entry that is missing in
 * the snapshot has not left: a restarted server has an empty bucket until its workers have written again. An entry that
 * has not changed says nothing new: its worker may have expired. Only a deletion, a dead process or missing heartbeats
 * end an entry. While NATS is unavailable no worker expires; afterwards all get time
 * to reconnect and a full time to live.
 */
import type { KvWatchEntry } from '@nats-io/kv'
import type { Msg, QueuedIterator, Subscription } from '@nats-io/nats-core'
import { BatonError, parseWorkerId, messageOf } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { decodeEntry, hasDied } from '../card-file.ts'
import type { CardFile } from '../card-file.ts'
import type { DiscoveryObserver, DiscoveryWatch, LeaveReason } from '../discovery.ts'
import { FleetDiff } from '../fleet-diff.ts'
import { Renewals } from '../renewals.ts'
import { bucketContent } from './bucket-content.ts'
import { bucketNews } from './bucket-news.ts'

import type { NatsSession } from './nats-session.ts'

interface NatsWatchOptions {
  readonly session: NatsSession
  readonly prefix: string
  readonly place: string
  readonly ttlMs: number
  readonly pollMs: number
  /** The server may lose a watch without a message: a cluster, when the server that has it dies. */
  readonly readAgainMs: number
}

interface Entry {
  readonly file: CardFile
  /** Valid within one bucket; a new one starts at 1. */
  readonly revision: number
}

/** Workers may reconnect later than this process, because their last attempt may just have failed. */
const RETURN_MS = 4_000
/** An unknown worker's heartbeat triggers a read of its card, at most once in this time per worker. */
const ASK_EVERY_MS = 1_000
const ASKED_MAX = 4_096
const FOLLOW_AGAIN_MS = 500

export class NatsWatch implements DiscoveryWatch {
  readonly #options: NatsWatchOptions
  readonly #observer: DiscoveryObserver
  readonly #diff: FleetDiff
  readonly #renewals: Renewals
  readonly #entries = new Map<WorkerId, Entry>()
  readonly #askedAtMs = new Map<WorkerId, number>()
  /** The newest known revision of each entry of the bucket, also of one that has ended. */
  #known = new Map<WorkerId, number>()
  #following: QueuedIterator<KvWatchEntry> | null = null
  #heard: Subscription | null = null
  /** Why heartbeats cannot be heard; null: they can. */
  #deaf: string | null = null
  /** Reported refusals; a login has few different ones. */
  readonly #refused = new Set<string>()
  #poll: NodeJS.Timeout | null = null
  #readAgain: NodeJS.Timeout | null = null
  #release: () => void = () => undefined
  #beats = 0
  #generation = 0
  #isJudging = false
  /** Why NATS is unavailable; null: it is not. */
  #away: string | null = null
  #closed = false

  constructor(options: NatsWatchOptions, observer: DiscoveryObserver) {
    this.#options = options
    this.#observer = observer
    this.#diff = new FleetDiff(observer)
    this.#renewals = new Renewals(options.ttlMs, performance.now())
  }

  get cards(): DiscoveryWatch['cards'] {
    return this.#diff.cards
  }

  /** Rejects with `config.invalid` when this login may not hear heartbeats: every worker would seem dead. */
  async open(): Promise<void> {
    const { session, pollMs, readAgainMs } = this.#options
    this.#hear()
    this.#release = session.use({
      up: () => this.#onUp(),
      away: (why) => this.#onAway(why),
      refused: (why) => this.#onRefused(why),
      notTold: (why) => this.#onRefused(why),
    })
    // A refusal arrives before the answer.
    await session.answers()
    if (this.#deaf !== null) throw new BatonError('config.invalid', this.#deaf)
    await this.#followPatiently()
    this.#poll = setInterval(() => void this.#look(), pollMs)
    this.#poll.unref()
    this.#readAgain = setInterval(() => void this.#followWhileUp(), readAgainMs)
    this.#readAgain.unref()
  }

  /** Retries when the server is lost during the first snapshot. */
  async #followPatiently(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#follow(++this.#generation)
        return
      } catch (thrown) {
        this.#onAway(messageOf(thrown))
        await new Promise((resolve) => setTimeout(resolve, FOLLOW_AGAIN_MS))
        if (this.#options.session.isUp && this.#away !== null) this.#onUp()
      }
    }
  }

  close(): void {
    this.#closed = true
    this.#release()
    if (this.#heard?.isClosed() === false) this.#heard.unsubscribe()
    this.#following?.stop()
    if (this.#poll !== null) clearInterval(this.#poll)
    if (this.#readAgain !== null) clearInterval(this.#readAgain)
  }

  #onAway(why: string): void {
    if (this.#closed || this.#away === why) return
    this.#away = why
    this.#observer.discoveryAway?.(why)
  }

  #hear(): void {
    const { session, prefix } = this.#options
    this.#deaf = null
    this.#heard = session.connection.subscribe(`${prefix}.beat.*`, {
      callback: (refusal, message) => {
        if (refusal === null) this.#onBeat(message)
        // The library has ended the subscription.
        else this.#onDeaf(`NATS refuses the heartbeats of workers: ${refusal.message}`)
      },
    })
  }

  /** Until the next connection no worker expires, because none can be heard. */
  #onDeaf(why: string): void {
    this.#deaf = why
    this.#onAway(why)
  }

  #onRefused(why: string): void {
    if (this.#closed || this.#refused.has(why)) return
    this.#refused.add(why)
    this.#observer.refused?.(why)
  }

  #onUp(): void {
    if (this.#closed) return
    if (this.#heard?.isClosed() === true) this.#hear()
    // The bucket may be another one.
    this.#known = new Map()
    this.#renewals.grant(performance.now() + RETURN_MS)
    if (this.#away !== null) this.#observer.discoveryBack?.()
    this.#away = null
    void this.#followWhileUp()
  }

  /** Retries while the server is there, until another attempt takes over; when it is lost, the reconnect begins anew. */
  async #followWhileUp(): Promise<void> {
    const generation = ++this.#generation
    while (generation === this.#generation && !this.#closed && this.#options.session.isUp) {
      try {
        await this.#follow(generation)
        return
      } catch {
        await new Promise((resolve) => setTimeout(resolve, FOLLOW_AGAIN_MS))
      }
    }
  }

  /** Resolves when the snapshot was reported, or another attempt has taken over. It subscribes to changes first, so that none is missed in between. */
  async #follow(generation: number): Promise<void> {
    this.#following?.stop()
    const { bucket } = this.#options.session
    const changes = await bucket.watch({ include: 'updates' })
    if (generation !== this.#generation || this.#closed) {
      changes.stop()
      return
    }
    this.#following = changes
    const take = (entry: KvWatchEntry): void => {
      if (generation === this.#generation && !this.#closed) this.#take(entry)
    }
    const content = await bucketContent(bucket)
    if (generation === this.#generation) {
      this.#forgetOthers(content)
      for (const entry of bucketNews(content, this.#known)) take(entry)
    }
    void followTo(changes, take)
  }

  /** The revisions of entries that are no more in the bucket. */
  #forgetOthers(content: readonly KvWatchEntry[]): void {
    const there = new Set(content.map(({ key }) => key))
    for (const workerId of this.#known.keys()) {
      if (!there.has(workerId)) this.#known.delete(workerId)
    }
  }

  #take(entry: KvWatchEntry): void {
    const workerId = parseWorkerId(entry.key)
    if (workerId === null || (this.#known.get(workerId) ?? 0) >= entry.revision) return
    this.#known.set(workerId, entry.revision)
    if (entry.operation !== 'PUT') {
      // A worker deletes its own entry. A watcher that notices the death of its process purges it.
      this.#drop(workerId, entry.operation === 'PURGE' ? 'process-died' : 'closed')
      return
    }
    this.#believe(workerId, entry.string(), entry.revision)
  }

  #believe(workerId: WorkerId, text: string, revision: number): void {
    try {
      const file = decodeEntry(workerId, text)
      this.#entries.set(workerId, { file, revision })
      this.#renewals.see(workerId, this.#nextMark(), performance.now())
      this.#diff.seen(file.card, text)
    } catch (thrown) {
      this.#observer.unreadable?.(workerId, BatonError.from(thrown).message)
    }
  }

  #onBeat(message: Msg): void {
    const workerId = parseWorkerId(message.subject.split('.').at(-1) ?? '')
    if (workerId === null || this.#closed) return
    if (this.#entries.has(workerId)) {
      this.#renewals.see(workerId, this.#nextMark(), performance.now())
    } else void this.#ask(workerId)
  }

  /** Reads the card of a worker that is alive but unknown: it had expired, or the bucket is new. */
  async #ask(workerId: WorkerId): Promise<void> {
    const { session } = this.#options
    const nowMs = performance.now()
    if (nowMs - (this.#askedAtMs.get(workerId) ?? -Infinity) < ASK_EVERY_MS || !session.isUp) return
    if (this.#askedAtMs.size >= ASKED_MAX) this.#askedAtMs.clear()
    this.#askedAtMs.set(workerId, nowMs)
    const generation = this.#generation
    const entry = await session.bucket.get(workerId).catch(() => null)
    if (entry === null || entry.operation !== 'PUT' || this.#closed) return
    // Meanwhile the watch may have reported that it has left.
    const isOld =
      generation !== this.#generation || (this.#known.get(workerId) ?? 0) > entry.revision
    if (isOld || this.#entries.has(workerId)) return
    this.#believe(workerId, entry.string(), entry.revision)
  }

  async #look(): Promise<void> {
    const { session } = this.#options
    this.#renewals.look(performance.now())
    if (!session.isUp || this.#isJudging || this.#deaf !== null) return
    this.#isJudging = true
    try {
      for (const [workerId, { file, revision }] of this.#entries) {
        if (!hasDied(file, this.#options.place)) continue
        this.#drop(workerId, 'process-died')
        session.bucket.purge(workerId, { previousSeq: revision }).catch(() => undefined)
      }
      if (this.#silent().length === 0) return
      // The silence may be the server's, not the worker's.
      if (!(await session.answers()) || this.#closed) return
      for (const workerId of this.#silent()) this.#drop(workerId, 'expired')
    } finally {
      this.#isJudging = false
    }
  }

  #silent(): readonly WorkerId[] {
    const nowMs = performance.now()
    return [...this.#entries.keys()].filter((workerId) => !this.#renewals.holds(workerId, nowMs))
  }

  #drop(workerId: WorkerId, reason: LeaveReason): void {
    this.#entries.delete(workerId)
    this.#renewals.forget(workerId)
    this.#diff.gone(workerId, reason)
  }

  #nextMark(): number {
    return ++this.#beats
  }
}

/** A watch that ends is started again with the next connection. */
async function followTo(
  changes: QueuedIterator<KvWatchEntry>,
  take: (entry: KvWatchEntry) => void,
): Promise<void> {
  try {
    for await (const entry of changes) take(entry)
  } catch {
    // The connection was lost; the session calls `up` when it is back.
  }
}
