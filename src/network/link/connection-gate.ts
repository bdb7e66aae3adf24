/**
 * Who may hold a connection to a port: strangers briefly and few of them, known peers as many as agreed.
 *
 * A stranger is whoever has not proved itself yet (TLS handshake included). One more than an address, or the port, may
 * have costs the oldest stranger its place, never the newcomer: whoever fills the port with idle connections shuts out
 * nobody but himself. A peer has a place of its own.
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
  /** By address and port, the oldest first. */
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

  /** The stranger has proved itself. What it is reported when there is no place for one more peer; null: it is a peer now. */
  admit(socket: Socket): BatonError | null {
    this.#strangers.delete(keyOf(socket))
    const { peersMax, peersPerAddressMax } = this.#limits
    const address = addressOf(socket)
    const ofAddress = this.#peersOf.get(address) ?? 0
    if (this.#peerCount >= peersMax || ofAddress >= peersPerAddressMax) {
      const limit = ofAddress >= peersPerAddressMax ? peersPerAddressMax : peersMax
      return new BatonError('transport.cannot_connect', `the peer has ${limit} connections`, {
        data: { limit },
      })
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

/** The same for a TCP socket and the TLS socket over it. */
function keyOf(socket: Socket): string {
  return `${addressOf(socket)}|${socket.remotePort ?? 0}`
}
