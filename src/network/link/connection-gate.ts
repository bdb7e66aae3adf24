/**
 * Limits the connections to a port: unauthenticated ones to a short time and a small number, authenticated peers to
 * a configured number.
 *
 * A connection is unauthenticated until its peer has proved itself (TLS handshake included). When an address or the
 * port exceeds its limit, the oldest unauthenticated connection is closed, never the newest, so that whoever fills
 * the port with idle connections only displaces his own. Authenticated peers are counted separately.
 */
import type { Socket } from 'node:net'
import { BatonError } from '../../base/index.ts'

export interface GateLimits {
  readonly strangersMax: number
  readonly strangersPerAddressMax: number
  readonly peersMax: number
  readonly peersPerAddressMax: number
}

const GATE_LIMITS: GateLimits = {
  strangersMax: 512,
  strangersPerAddressMax: 64,
  peersMax: 1_024,
  peersPerAddressMax: 512,
}

interface Stranger {
  readonly address: string
  readonly socket: Socket
}

export class ConnectionGate {
  readonly #limits: GateLimits
  /** By address and port, oldest first. */
  readonly #strangers = new Map<string, Stranger>()
  readonly #peersOf = new Map<string, number>()
  #peerCount = 0

  constructor(limits: Partial<GateLimits> = {}) {
    this.#limits = { ...GATE_LIMITS, ...limits }
  }

  get strangerCount(): number {
    return this.#strangers.size
  }

  /** A connection was accepted; with TLS before its handshake. */
  enter(socket: Socket): void {
    const { strangersMax, strangersPerAddressMax } = this.#limits
    const address = addressOf(socket)
    const key = keyOf(socket)
    this.#strangers.set(key, { address, socket })
    socket.once('close', () => this.#strangers.delete(key))
    const ofAddress = [...this.#strangers.values()].filter((one) => one.address === address)
    if (ofAddress.length > strangersPerAddressMax) this.#evict(ofAddress[0])
    else if (this.#strangers.size > strangersMax) this.#evict(this.#strangers.values().next().value)
  }

  /**
   * The peer has authenticated. Returns the error for the peer when there are too many peers; null: it is accepted.
   */
  admit(socket: Socket): BatonError | null {
    this.#strangers.delete(keyOf(socket))
    const { peersMax, peersPerAddressMax } = this.#limits
    const address = addressOf(socket)
    const ofAddress = this.#peersOf.get(address) ?? 0
    if (this.#peerCount >= peersMax || ofAddress >= peersPerAddressMax) {
      const limit = ofAddress >= peersPerAddressMax ? peersPerAddressMax : peersMax
      return new BatonError(
        'transport.cannot_connect',
        `the limit of ${limit} connections of this peer is reached`,
        {
          data: { limit },
        },
      )
    }
    this.#peerCount += 1
    this.#peersOf.set(address, ofAddress + 1)
    socket.once('close', () => this.#leave(address))
    return null
  }

  #leave(address: string): void {
    this.#peerCount -= 1
    const left = (this.#peersOf.get(address) ?? 1) - 1
    if (left === 0) this.#peersOf.delete(address)
    else this.#peersOf.set(address, left)
  }

  #evict(stranger: Stranger | undefined): void {
    if (stranger === undefined) return
    this.#strangers.delete(keyOf(stranger.socket))
    stranger.socket.destroy()
  }
}

function addressOf({ remoteAddress }: Socket): string {
  return remoteAddress ?? ''
}

/** The same key for a TCP socket and the TLS socket on top of it. */
function keyOf(socket: Socket): string {
  return `${addressOf(socket)}|${socket.remotePort ?? 0}`
}
