/**
 * Calls that must reach the same process of a server: each is sent over the connection of the one before it. So what
 * the server has said about itself is still true for the next call: a process that was replaced has closed the
 * connection.
 *
 * A server that closes its connections after every answer gives no such certainty; the next call then has a
 * connection of its own.
 */
import type { UpstreamConnection } from './upstream-connection.ts'

export class Lane {
  #connection: UpstreamConnection | null = null
  #hasAnswered = false
  #isGone = false

  /** After the first answer a call is never sent again, because that might be to another process. */
  get hasAnswered(): boolean {
    return this.#hasAnswered
  }

  /** True: the connection has ended between two calls, so the next one might reach another process. */
  get isGone(): boolean {
    return this.#isGone
  }

  /** For the next call; null: a new one. */
  take(): UpstreamConnection | null {
    const connection = this.#connection
    this.#connection = null
    return connection
  }

  /** `connection`: null if the server closes it. */
  answered(connection: UpstreamConnection | null): void {
    this.#hasAnswered = true
    this.#connection = connection
  }

  gone(): void {
    this.#connection = null
    this.#isGone = true
  }
}
