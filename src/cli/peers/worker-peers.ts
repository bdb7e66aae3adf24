/**
 * Connects the frontends of a fleet without NATS: they send messages to each other through the workers that
 * they share. A worker relays the messages unread. Each message is sent through two workers, and duplicates are
 * dropped.
 */
import { randomUUID } from 'node:crypto'
import { isRecord } from '../../base/index.ts'
import type { PeerChannel } from '../../discovery/index.ts'
import { decodePlain, encodePlain, PEER_BYTES_MAX } from '../../wire/index.ts'
import { SeenIds } from './seen-ids.ts'

const OVER_WORKERS = 2

export class WorkerPeers implements PeerChannel {
  readonly #send: (payload: Uint8Array, over: number) => number
  readonly #listeners = new Map<string, (body: unknown) => void>()
  readonly #self = randomUUID()
  readonly #seen = new SeenIds()
  #sent = 0

  constructor(send: (payload: Uint8Array, over: number) => number) {
    this.#send = send
  }

  tell(topic: string, body: unknown): void {
    const id = `${this.#self} ${++this.#sent}`
    const payload = encodePlain({ id, topic, body }, 'messages for other frontends')
    if (payload.length <= PEER_BYTES_MAX) this.#send(payload, OVER_WORKERS)
  }

  onTold(topic: string, listener: (body: unknown) => void): void {
    this.#listeners.set(topic, listener)
  }

  /** Throws for an invalid message; the worker that relayed it unread is not to blame. */
  take(payload: Uint8Array): void {
    const told = decodePlain(payload, 0, payload.length, 'a message of another frontend')
    if (!isRecord(told)) return
    const { id, topic, body } = told
    if (!SeenIds.isId(id) || typeof topic !== 'string') return
    if (this.#seen.add(id)) this.#listeners.get(topic)?.(body)
  }
}
