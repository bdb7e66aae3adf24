/**
 * Limits the connections of one address, so that one client cannot take all. Connections from this machine are not
 * counted, because they often come from a proxy.
 */
import type { Socket } from 'node:net'
import { isLoopback } from '../../os/index.ts'

/** A client at the limit may retry continuously, so refusals are reported at most once in this time. */
const REPORT_MS = 60_000

export class AddressLimit {
  readonly #max: number
  readonly #onRefused: (address: string) => void
  readonly #counts = new Map<string, number>()
  readonly #reportedMs = new Map<string, number>()

  readonly #isExempt: (address: string) => boolean

  /** `max` 0: no limit. */
  constructor(max: number, onRefused: (address: string) => void, isExempt = isLoopback) {
    this.#max = max
    this.#isExempt = isExempt
    this.#onRefused = onRefused
  }

  /** Destroys a connection above the limit. */
  readonly admit = (socket: Socket): void => {
    const { remoteAddress } = socket
    if (this.#max === 0 || remoteAddress === undefined) return
    const address = remoteAddress.replace(/^::ffff:/, '')
    if (this.#isExempt(address)) return
    const count = this.#counts.get(address) ?? 0
    if (count >= this.#max) {
      socket.destroy()
      this.#report(address)
      return
    }
    this.#counts.set(address, count + 1)
    socket.once('close', () => this.#left(address))
  }

  #left(address: string): void {
    const count = (this.#counts.get(address) ?? 1) - 1
    if (count > 0) this.#counts.set(address, count)
    else {
      this.#counts.delete(address)
      this.#reportedMs.delete(address)
    }
  }

  #report(address: string): void {
    const nowMs = performance.now()
    if (nowMs - (this.#reportedMs.get(address) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return
    this.#reportedMs.set(address, nowMs)
    this.#onRefused(address)
  }
}
