/**
 * Messages between frontends over NATS: plain, not stored. A frontend does not receive its own.
 */
import { randomUUID } from 'node:crypto'
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
    const text = JSON.stringify({ from: this.#self, body })
    this.#session.connection.publish(this.#subject(topic), text)
  }

  onTold(topic: string, listener: (body: unknown) => void): void {
    this.#session.connection.subscribe(this.#subject(topic), {
      callback: (_, message) => {
        const told = parsed(message.string())
        if (isRecord(told) && told['from'] !== this.#self) listener(told['body'])
      },
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
