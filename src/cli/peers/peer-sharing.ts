/**
 * What several frontends tell each other, over any channel: NATS, the parent process of frontends behind one
 * port, or the connections to workers.
 *
 * A peer may be broken or of another version. An invalid message is therefore ignored and reported, and never
 * closes the channel that it came over. However often peers ask for it, the full state is sent at most once a
 * second.
 */
import { randomUUID } from 'node:crypto'
import { isRecord } from '../../base/index.ts'
import { checkCard } from '../../discovery/index.ts'
import type { PeerChannel } from '../../discovery/index.ts'
import { adminNewsOf, learnAdminNews, parseKeyUseNews } from '../../frontend/index.ts'
import type { AdminNews, Frontend } from '../../frontend/index.ts'
import { parsePeerNews } from '../../router/index.ts'
import type { PeerNews } from '../../router/index.ts'
import { SeenIds } from './seen-ids.ts'

/** Milliseconds between two answers to requests for the full state. */
const TELL_ALL_EVERY_MS = 1_000
/** Another frontend counts as present for this long after its last message. Without one, a probe is sent this often. */
const HEARD_MS = 60_000
const PROBE_EVERY_MS = 5_000
/** An invalid message is reported at most once in this time, whatever its topic. */
const REPORT_EVERY_MS = 60_000

/** Called for a message from another frontend that is not valid. */
type OnBadNews = (topic: string, error: unknown) => void

export class PeerSharing {
  #channels: readonly PeerChannel[] = []
  #onBadNews: OnBadNews = () => undefined
  #reportedMs = -Infinity
  #toldAllMs = -Infinity
  readonly #self = randomUUID()
  #told = 0
  /** Ids of received messages: a message arrives over every channel, and must be counted once. */
  readonly #heard = new SeenIds()
  #heardMs = -Infinity
  #probedMs = -Infinity
  #tellsAll: NodeJS.Timeout | null = null

  get hasPeers(): boolean {
    return this.#channels.length > 0
  }

  /**
   * True if messages about every prompt should be sent: another frontend was heard recently. Without one it is true once in
   * `PROBE_EVERY_MS`, so that other frontends learn of this one.
   */
  get isHeard(): boolean {
    if (!this.hasPeers) return false
    const nowMs = performance.now()
    if (nowMs - this.#heardMs < HEARD_MS) return true
    if (nowMs - this.#probedMs < PROBE_EVERY_MS) return false
    this.#probedMs = nowMs
    return true
  }

  tell(model: string, version: string, news: PeerNews): void {
    this.#tell('news', { model, version, news, id: `${this.#self} ${++this.#told}` })
  }

  tellAdmin(news: AdminNews): void {
    this.#tell('admin', news)
  }

  /**
   * Starts sharing, and asks the other frontends for their state. Receiving a message twice has no further
   * effect.
   */
  start(channels: readonly PeerChannel[], frontend: Frontend, onBadNews?: OnBadNews): void {
    this.#channels = channels
    if (onBadNews !== undefined) this.#onBadNews = onBadNews
    frontend.keyLimits.shareWith((news) => this.#tell('key', news))
    frontend.others.shareWith({
      wanted: () => this.#tell('looked', null),
      news: (news) => this.#tell('seen', news),
      asked: (asked) => this.#tell('explain', asked),
      told: (told) => this.#tell('explained', told),
    })
    for (const channel of channels) this.#listen(channel, frontend)
    this.ask()
  }

  /** Asks for the state of the other frontends, when a new channel to them has connected. */
  ask(): void {
    this.#tell('wanted', null)
  }

  #tell(topic: string, body: unknown): void {
    for (const channel of this.#channels) channel.tell(topic, body)
  }

  #listen(channel: PeerChannel, frontend: Frontend): void {
    const { registry, keyLimits, others } = frontend
    const hear = (topic: string, listener: (body: unknown) => void): void =>
      channel.onTold(topic, (body) => this.attempt(topic, () => listener(body)))
    hear('looked', () => others.wanted())
    hear('seen', (body) => others.learn(body))
    hear('explain', (body) => others.asked(body))
    hear('explained', (body) => others.told(body))
    hear('news', (body) => {
      if (!isRecord(body)) return
      const news = this.#isNew(body['id']) ? parsePeerNews(body['news']) : null
      if (news !== null) registry.learn(String(body['model']), String(body['version']), news)
    })
    hear('admin', (body) => learnAdminNews(registry, body, checkCard))
    hear('key', (body) => {
      const news = parseKeyUseNews(body)
      if (news !== null) keyLimits.learn(news)
    })
    hear('wanted', () => this.#tellAllSoon(frontend))
  }

  #isNew(id: unknown): boolean {
    // Frontends of older versions send no id.
    return !SeenIds.isId(id) || this.#heard.add(id)
  }

  /** Runs `hear`; an error is reported and the message is ignored. */
  attempt(topic: string, hear: () => void): void {
    this.#heardMs = performance.now()
    try {
      hear()
    } catch (error) {
      const nowMs = performance.now()
      if (nowMs - this.#reportedMs < REPORT_EVERY_MS) return
      this.#reportedMs = nowMs
      this.#onBadNews(topic, error)
    }
  }

  /**
   * Sends the full state now, or when the minimum interval has passed; one answer serves all who asked
   * meanwhile.
   */
  #tellAllSoon(frontend: Frontend): void {
    if (this.#tellsAll !== null) return
    const waitMs = this.#toldAllMs + TELL_ALL_EVERY_MS - performance.now()
    if (waitMs <= 0) return this.#tellAll(frontend)
    this.#tellsAll = setTimeout(() => this.#tellAll(frontend), waitMs)
    this.#tellsAll.unref()
  }

  #tellAll({ registry, keyLimits }: Frontend): void {
    this.#tellsAll = null
    this.#toldAllMs = performance.now()
    for (const { router } of registry.models) router.tellPeers()
    for (const news of adminNewsOf(registry)) this.#tell('admin', news)
    keyLimits.tellAll()
  }
}
