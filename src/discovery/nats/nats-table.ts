/**
 * A bucket of texts on the server's disk: readers follow its changes, writers change one text at a time.
 *
 * Owns the known content of the bucket. While the server is unavailable the content stays; afterwards it is read
 * again. A full read from time to time finds changes whose message was lost.
 *
 * Somebody who deletes a bucket, or a server that has lost its disk, removes no entry: while the bucket that is made
 * again is empty, the known content stays. Whoever writes to it decides what it has from then on.
 */
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { QueuedIterator } from '@nats-io/nats-core'
import { BatonError, messageOf } from '../../base/index.ts'
import { bucketContent } from './bucket-content.ts'
import type { NatsAddress } from './nats-address.ts'
import { NatsSession, unavailable } from './nats-session.ts'

interface NatsTableOptions {
  readonly address: NatsAddress
  /** The name of the bucket after the address's prefix. */
  readonly name: string
  /** Called when the server is unavailable; the known content stays. */
  readonly onAway?: (why: string) => void
  readonly onBack?: () => void
  /** The bucket was deleted, or the server has lost it; the known content stays until somebody writes to the new one. */
  readonly onLost?: () => void
  /** The content is that of a new bucket, which lacks this number of the known names. */
  readonly onReplaced?: (missing: number) => void
  /** How long the start waits for an unavailable server. */
  readonly openMs?: number
  readonly readAgainMs?: number
}

/** What a bucket has, the revision of each of its entries, and when it was made. */
interface Content {
  readonly texts: Map<string, string>
  readonly known: Map<string, number>
  readonly madeAt: string
}

const PING_MS = 2_000
const ASK_MS = 6_000
const OPEN_MS = 15_000
const READ_AGAIN_MS = 30_000
const FOLLOW_AGAIN_MS = 500
const TEXT_BYTES_MAX = 16 * 1024
const ATTEMPTS = 5

export class NatsTable {
  readonly #options: NatsTableOptions
  readonly #session: NatsSession
  readonly #listeners = new Set<() => void>()
  #texts: ReadonlyMap<string, string> = new Map()
  /** When the bucket was made whose content is known. */
  #madeAt: string | null = null
  #isLost = false
  #following: QueuedIterator<KvWatchEntry> | null = null
  #readAgain: NodeJS.Timeout | null = null
  #release: () => void = () => undefined
  #generation = 0
  /** Why NATS is unavailable; null: it is not. */
  #isAway = false
  #closed = false

  constructor(options: NatsTableOptions) {
    this.#options = options
    const { address, name } = options
    const bucketOptions = { storage: 'file', maxValueSize: TEXT_BYTES_MAX } as const
    this.#session = new NatsSession({
      address,
      bucket: name,
      bucketOptions,
      keepMs: Infinity,
      pingMs: PING_MS,
      askMs: ASK_MS,
    })
  }

  /**
   * Rejects with `config.invalid` when the server refuses this process, and with `discovery.unavailable` when none
   * answers.
   */
  async open(): Promise<void> {
    const { address, openMs = OPEN_MS } = this.#options
    let timer: NodeJS.Timeout | null = null
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const why = this.#session.awayReason ?? 'connecting'
        const text = `${address.servers.join()} has not answered for ${openMs / 1000} s (${why})`
        reject(unavailable(text))
      }, openMs)
    })
    try {
      await Promise.race([this.#session.open(), late])
    } finally {
      if (timer !== null) clearTimeout(timer)
    }
  }

  /** Resolves when the bucket's content is known. */
  async follow(): Promise<void> {
    await this.open()
    this.#release = this.#session.use({
      up: () => this.#onUp(),
      away: (why) => this.#onAway(why),
    })
    const { readAgainMs = READ_AGAIN_MS } = this.#options
    await this.#followPatiently()
    this.#readAgain = setInterval(() => {
      if (this.#session.isUp) void this.#followPatiently()
    }, readAgainMs)
    this.#readAgain.unref()
  }

  /** The known content, after `follow`. */
  get texts(): ReadonlyMap<string, string> {
    return this.#texts
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** The current content of the bucket. */
  async read(): Promise<ReadonlyMap<string, string>> {
    const texts = new Map<string, string>()
    for (const entry of await bucketContent(this.#bucket)) put(texts, entry)
    return texts
  }

  /** Rejects with `request.conflict` when the name is taken. */
  async create(name: string, text: string): Promise<void> {
    try {
      await this.#bucket.create(name, text)
    } catch (thrown) {
      if (!isOvertaken(thrown)) throw unavailable(messageOf(thrown), thrown)
      throw new BatonError('request.conflict', `${this.#options.name}: ${name} exists already`)
    }
  }

  /** False: the text does not exist. Concurrent writes of others are not lost. */
  async change(name: string, next: (text: string) => string): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      const entry = await this.#bucket.get(name)
      if (entry === null || entry.operation !== 'PUT') return false
      try {
        await this.#bucket.update(name, next(entry.string()), entry.revision)
        return true
      } catch (thrown) {
        if (!isOvertaken(thrown) || attempt >= ATTEMPTS) throw thrown
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#release()
    this.#following?.stop()
    if (this.#readAgain !== null) clearInterval(this.#readAgain)
    await this.#session.close()
  }

  get #bucket(): KV {
    return this.#session.bucket
  }

  #onAway(why: string): void {
    if (this.#closed) return
    this.#isAway = true
    this.#options.onAway?.(why)
  }

  #onUp(): void {
    if (this.#closed) return
    if (this.#isAway) this.#options.onBack?.()
    this.#isAway = false
    void this.#followPatiently()
  }

  /** Retries until the content is known or another attempt has taken over. */
  async #followPatiently(): Promise<void> {
    const generation = ++this.#generation
    while (!this.#closed && generation === this.#generation) {
      try {
        await this.#follow(generation)
        return
      } catch {
        await new Promise((resolve) => {
          setTimeout(resolve, FOLLOW_AGAIN_MS)
        })
      }
    }
  }

  /** Subscribes to changes first and reads the content then, so that no change is missed in between. */
  async #follow(generation: number): Promise<void> {
    const madeAt = await this.#session.madeAt()
    const changes = await this.#bucket.watch({ include: 'updates' })
    if (generation !== this.#generation || this.#closed) {
      changes.stop()
      return
    }
    this.#following?.stop()
    this.#following = changes
    const entries = await bucketContent(this.#bucket)
    const isSame = (await this.#session.madeAt()) === madeAt
    if (generation !== this.#generation || this.#closed) return
    if (!isSame) throw unavailable('the bucket was made again')
    const texts = new Map<string, string>()
    for (const entry of entries) put(texts, entry)
    this.#take(texts, madeAt)
    const known = new Map(entries.map(({ key, revision }) => [key, revision]))
    void this.#followTo(changes, { texts, known, madeAt })
  }

  /** `known`: older changes are ignored. */
  async #followTo(changes: QueuedIterator<KvWatchEntry>, bucket: Content): Promise<void> {
    const { known, madeAt } = bucket
    let { texts } = bucket
    try {
      for await (const entry of changes) {
        if (changes !== this.#following || this.#closed) return
        if (entry.revision <= (known.get(entry.key) ?? 0)) continue
        known.set(entry.key, entry.revision)
        texts = new Map(texts)
        put(texts, entry)
        this.#take(texts, madeAt)
      }
    } catch {
      // The connection was lost; the changes are read when it is back.
    }
  }

  #take(texts: ReadonlyMap<string, string>, madeAt: string): void {
    const isOther = this.#madeAt !== madeAt && this.#texts.size > 0
    if (isOther && texts.size === 0) {
      if (!this.#isLost) this.#options.onLost?.()
      this.#isLost = true
      return
    }
    const missing = [...this.#texts.keys()].filter((name) => !texts.has(name))
    this.#texts = texts
    this.#madeAt = madeAt
    for (const listener of this.#listeners) listener()
    if (isOther || this.#isLost) this.#options.onReplaced?.(missing.length)
    this.#isLost = false
  }
}

function put(texts: Map<string, string>, entry: KvWatchEntry): void {
  if (entry.operation === 'PUT') texts.set(entry.key, entry.string())
  else texts.delete(entry.key)
}

function isOvertaken(thrown: unknown): boolean {
  return /wrong last sequence/i.test(messageOf(thrown))
}
