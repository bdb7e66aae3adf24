/**
 * Messages between frontends over NATS: plain, not stored. A frontend does not receive its own.
 */
import { randomUUID } from 'node:crypto'
import type { Subscription } from '@nats-io/nats-core'
import { isRecord } from '../../base/index.ts'
import type { PeerChannel } from '../discovery.ts'
import type { NatsSession } from './nats-session.ts'

export class NatsPeers implements PeerChannel {
  readonly #session: NatsSession
  readonly #prefix: string
  readonly #self = randomUUID()

  constructor(session: NatsSession, prefix: string) {
    this.#session = session
    this.#prefix = prefix
  }

  tell(topic: string, body: unknown): void {
    if (!this.#session.isConnected) return
    const bytes = new TextEncoder().encode(JSON.stringify({ from: this.#self, body }))
    const { connection } = this.#session
    const bytesMax = connection.info?.max_payload ?? Infinity
    // The client library would throw, into the request that the message is about.
    if (bytes.length <= bytesMax) connection.publish(this.#subject(topic), bytes)
    else
      this.#session.notTold(
        `messages to other frontends above max_payload (${bytesMax}) are not sent`,
      )
  }

  onTold(topic: string, listener: (body: unknown) => void): void {
    const subscribe = (): Subscription =>
      this.#session.connection.subscribe(this.#subject(topic), {
        callback: (refusal, message) => {
          // The session reports it; there is no message then, and the library has ended the subscription.
          if (refusal !== null) return
          const told = parsed(message.string())
          if (isRecord(told) && told['from'] !== this.#self) listener(told['body'])
        },
      })
    let heard = subscribe()
    this.#session.use({
      // The permissions of the login may have been corrected.
      up: () => {
        if (heard.isClosed()) heard = subscribe()
      },
      away: () => undefined,
    })
  }

  #subject(topic: string): string {
    return `${this.#prefix}.peers.${topic}`
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
