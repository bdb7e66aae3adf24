/**
 * What several frontends tell each other, over whichever way there is: NATS, the parent of frontends behind one port, or
 * the connections to workers.
 */
import { isRecord } from '../../base/index.ts'
import { checkCard } from '../../discovery/index.ts'
import type { PeerChannel } from '../../discovery/index.ts'
import { adminNewsOf, learnAdminNews, parseKeyUseNews } from '../../frontend/index.ts'
import type { AdminNews, Frontend } from '../../frontend/index.ts'
import { parsePeerNews } from '../../router/index.ts'
import type { PeerNews } from '../../router/index.ts'

export class PeerSharing {
  #channels: readonly PeerChannel[] = []

  get hasPeers(): boolean {
    return this.#channels.length > 0
  }

  tell(model: string, version: string, news: PeerNews): void {
    this.#tell('news', { model, version, news })
  }

  tellAdmin(news: AdminNews): void {
    this.#tell('admin', news)
  }

  tellRoleChange(model: string, version: string): void {
    this.#tell('role', { model, version })
  }

  onRoleChange: (model: string, version: string) => void = () => undefined

  /** From now on; the others are asked for what they know. What comes twice is believed once. */
  start(channels: readonly PeerChannel[], frontend: Frontend): void {
    this.#channels = channels
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

  /** What the others know; for a way to them that has just come up. */
  ask(): void {
    this.#tell('wanted', null)
  }

  #tell(topic: string, body: unknown): void {
    for (const channel of this.#channels) channel.tell(topic, body)
  }

  #listen(channel: PeerChannel, { registry, keyLimits, others }: Frontend): void {
    channel.onTold('looked', () => others.wanted())
    channel.onTold('seen', (body) => others.learn(body))
    channel.onTold('explain', (body) => others.asked(body))
    channel.onTold('explained', (body) => others.told(body))
    channel.onTold('news', (body) => {
      if (!isRecord(body)) return
      const news = parsePeerNews(body['news'])
      if (news !== null) registry.learn(String(body['model']), String(body['version']), news)
    })
    channel.onTold('admin', (body) => learnAdminNews(registry, body, checkCard))
    channel.onTold('key', (body) => {
      const news = parseKeyUseNews(body)
      if (news !== null) keyLimits.learn(news)
    })
    channel.onTold('role', (body) => {
      if (isRecord(body)) this.onRoleChange(String(body['model']), String(body['version']))
    })
    channel.onTold('wanted', () => {
      for (const { router } of registry.models) router.tellPeers()
      for (const news of adminNewsOf(registry)) this.#tell('admin', news)
      keyLimits.tellAll()
    })
  }
}
