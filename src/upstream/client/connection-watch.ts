/**
 * The deadlines of a client's connections, by one timer for all of them: a read costs none of its own, and one that comes too
 * late is noticed a quarter of the shortest deadline late at most. And whether a machine is gone that has not confirmed a request.
 */
import { portsKey, readRetransmissions } from './retransmissions.ts'
import type { ConnectionDeadlines } from './upstream-connection.ts'

const TICK_MS_MAX = 250
const TICK_MS_MIN = 5
const CONFIRMED_CHECK_MS_MAX = 5_000
/** So many in a row are no packet that was lost. */
const RETRANSMISSIONS_MIN = 3

interface Watched {
  /** False: it is not to be looked at any more. */
  tick(tickMs: number): boolean
  /** Local and remote port of one that waits for an answer and has heard nothing for so long; null: it does not. */
  waitingFor(quietMs: number, tickMs: number): readonly [number, number] | null
  /** Its machine has not confirmed what it was sent. */
  vanished(): void
}

export class ConnectionWatch {
  readonly #tickMs: number
  readonly #unconfirmedMs: number
  readonly #connections = new Set<Watched>()
  #timer: NodeJS.Timeout | null = null
  #checkedMs = 0
  #isChecking = false

  constructor({ connectMs, headMs, idleMs, unconfirmedMs }: ConnectionDeadlines) {
    const shortest = Math.min(connectMs, headMs, idleMs)
    this.#tickMs = Math.max(TICK_MS_MIN, Math.min(TICK_MS_MAX, shortest / 4))
    this.#unconfirmedMs = unconfirmedMs
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
    else void this.#checkConfirmed()
  }

  /** A request is all that is sent on a connection, so what is not confirmed now has been so since then. */
  async #checkConfirmed(): Promise<void> {
    const nowMs = performance.now()
    const everyMs = Math.min(CONFIRMED_CHECK_MS_MAX, this.#unconfirmedMs)
    if (this.#isChecking || nowMs - this.#checkedMs < everyMs) return
    this.#checkedMs = nowMs
    const waiting = [...this.#connections].filter((each) => this.#portsOf(each) !== null)
    if (waiting.length === 0) return
    this.#isChecking = true
    const counts = await readRetransmissions()
    this.#isChecking = false
    for (const connection of waiting) {
      // Meanwhile it may have been answered, and carry another request.
      const ports = this.#portsOf(connection)
      const count = ports === null ? 0 : (counts.get(portsKey(...ports)) ?? 0)
      if (count >= RETRANSMISSIONS_MIN) connection.vanished()
    }
  }

  #portsOf(connection: Watched): readonly [number, number] | null {
    return connection.waitingFor(this.#unconfirmedMs, this.#tickMs)
  }
}
