/**
 * The deadlines of a client's connections, with one timer for all: a read sets no timer, and a missed deadline is
 * noticed at most a quarter of the shortest deadline late. Also detects that a machine is gone which has not
 * acknowledged a request.
 */
import { portsKey, readRetransmissions } from './retransmissions.ts'
import type { ConnectionDeadlines } from './upstream-connection.ts'

const TICK_MS_MAX = 250
const TICK_MS_MIN = 5
const CONFIRMED_CHECK_MS_MAX = 5_000
/** This many consecutive retransmissions are not explained by a lost packet. */
const RETRANSMISSIONS_MIN = 3

interface Watched {
  /** False: the connection need not be watched any more. */
  tick(tickMs: number): boolean
  /**
   * The local and remote port if it has waited for an answer for `quietMs` without receiving anything; null
   * otherwise.
   */
  waitingFor(quietMs: number, tickMs: number): readonly [number, number] | null
  /** The machine has not acknowledged the request. */
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
    // The sockets in use keep the process alive, not this timer.
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

  /**
   * Only one request is sent on a connection at a time, so unacknowledged data has been unacknowledged since then.
   */
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
      // Meanwhile the answer may have arrived, and the connection may carry another request.
      const ports = this.#portsOf(connection)
      const count = ports === null ? 0 : (counts.get(portsKey(...ports)) ?? 0)
      if (count >= RETRANSMISSIONS_MIN) connection.vanished()
    }
  }

  #portsOf(connection: Watched): readonly [number, number] | null {
    return connection.waitingFor(this.#unconfirmedMs, this.#tickMs)
  }
}
