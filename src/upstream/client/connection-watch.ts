/**
 * The deadlines of a client's connections, by one timer for all of them: a read costs none of its own, and one that comes too
 * late is noticed a quarter of the shortest deadline late at most.
 */
import type { ConnectionDeadlines } from './upstream-connection.ts'

const TICK_MS_MAX = 250
const TICK_MS_MIN = 5

interface Watched {
  /** False: it is not to be looked at any more. */
  tick(tickMs: number): boolean
}

export class ConnectionWatch {
  readonly #tickMs: number
  readonly #connections = new Set<Watched>()
  #timer: NodeJS.Timeout | null = null

  constructor({ connectMs, headMs, idleMs }: ConnectionDeadlines) {
    const shortest = Math.min(connectMs, headMs, idleMs)
    this.#tickMs = Math.max(TICK_MS_MIN, Math.min(TICK_MS_MAX, shortest / 4))
  }

  add(connection: Watched): void {
    this.#connections.add(connection)
    // The sockets that are in use keep the process alive, not this.
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref()
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  #tick(): void {
    for (const connection of this.#connections) {
      if (!connection.tick(this.#tickMs)) this.#connections.delete(connection)
    }
    if (this.#connections.size === 0) this.close()
  }
}
