/**
 * A bucket of texts that is kept on the server's disk: followed by those who read it, changed one text at a time.
 *
 * Owns: what the bucket holds as far as it is known. While the server is away that stays as it was; when it is back it is
 * read anew. A change that no message told of is found by reading everything again now and then.
 */
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { QueuedIterator } from '@nats-io/nats-core'
import { BatonError } from '../../base/index.ts'
import type { NatsAddress } from './nats-address.ts'
import { messageOf, NatsSession, unavailable } from './nats-session.ts'

export interface NatsTableOptions {
  readonly address: NatsAddress
  /** Of the bucket, behind the address's prefix. */
  readonly name: string
  /** The server is away; what is known stays. */
  readonly onAway?: (why: string) => void
  readonly onBack?: () => void
  /** How long a server that is away is waited for at the start. */
  readonly openMs?: number
  readonly readAgainMs?: number
}

const PING_MS = 2_000
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
  #following: QueuedIterator<KvWatchEntry> | null = null
  #readAgain: NodeJS.Timeout | null = null
  #release: () => void = () => undefined
  #generation = 0
  #isAway = false
  #closed = false

  constructor(options: NatsTableOptions) {
    this.#options = options
    const { address, name } = options
    const bucketOptions = { storage: 'file', maxValueSize: TEXT_BYTES_MAX } as const
    this.#session = new NatsSession({ address, bucket: name, bucketOptions, pingMs: PING_MS })
  }

  /** Rejects with `config.invalid` when the server refuses this process, `discovery.unavailable` when there is none. */
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

  /** Resolves with what the bucket holds known. */
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

  /** Of one that is followed. */
  get texts(): ReadonlyMap<string, string> {
    return this.#texts
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** What the bucket holds now. */
  async read(): Promise<ReadonlyMap<string, string>> {
    const texts = new Map<string, string>()
    for (const entry of await this.#entries()) put(texts, entry)
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

  /** False: there is no such text. Whatever others write meanwhile is not lost. */
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

  async #entries(): Promise<readonly KvWatchEntry[]> {
    const entries: KvWatchEntry[] = []
    for await (const entry of await this.#bucket.history()) entries.push(entry)
    return entries
  }

  get #bucket(): KV {
    return this.#session.bucket
  }

  #onAway(why: string): void {
    if (this.#isAway || this.#closed) return
    this.#isAway = true
    this.#options.onAway?.(why)
  }

  #onUp(): void {
    if (this.#closed) return
    if (this.#isAway) this.#options.onBack?.()
    this.#isAway = false
    void this.#followPatiently()
  }

  /** Until it is known, or another attempt has taken over. */
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

  /** First the changes are asked for, so that none is between them and what the bucket holds. */
  async #follow(generation: number): Promise<void> {
    const changes = await this.#bucket.watch({ include: 'updates' })
    if (generation !== this.#generation || this.#closed) {
      changes.stop()
      return
    }
    this.#following?.stop()
    this.#following = changes
    const entries = await this.#entries()
    if (generation !== this.#generation || this.#closed) return
    const texts = new Map<string, string>()
    for (const entry of entries) put(texts, entry)
    this.#set(texts)
    void this.#followTo(changes, new Map(entries.map(({ key, revision }) => [key, revision])))
  }

  /** `known`: what is older than this has been overtaken. */
  async #followTo(
    changes: QueuedIterator<KvWatchEntry>,
    known: Map<string, number>,
  ): Promise<void> {
    try {
      for await (const entry of changes) {
        if (changes !== this.#following || this.#closed) return
        if (entry.revision <= (known.get(entry.key) ?? 0)) continue
        known.set(entry.key, entry.revision)
        const texts = new Map(this.#texts)
        put(texts, entry)
        this.#set(texts)
      }
    } catch {
      // The connection is lost; what changed meanwhile is read when it is back.
    }
  }

  #set(texts: ReadonlyMap<string, string>): void {
    this.#texts = texts
    for (const listener of this.#listeners) listener()
  }
}

function put(texts: Map<string, string>, entry: KvWatchEntry): void {
  if (entry.operation === 'PUT') texts.set(entry.key, entry.string())
  else texts.delete(entry.key)
}

function isOvertaken(thrown: unknown): boolean {
  return /wrong last sequence/i.test(messageOf(thrown))
}
