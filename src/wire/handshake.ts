/**
 * How a connection of the dialect `baton` begins, without a socket: HELLO both ways, then AUTH, the dialler first.
 *
 *   initiator ── HELLO(nonce a) ────▶ ◀── HELLO(nonce b) ── acceptor     both at once
 *   initiator ── AUTH(prove(I,b,a)) ─▶                      acceptor     checks it
 *   initiator    checks it        ◀── AUTH(prove(A,a,b)) ── acceptor     empty when no secret is set
 *
 * Whoever listens gives no proof to a stranger, who could try secrets on it at leisure; nor does a stranger that dials an
 * old acceptor, which proves itself at once: both orders are understood.
 *
 * The proof names the side that gives it, so that a side's own proof cannot be sent back to it, and covers both
 * nonces, so that it cannot be used again. How a proof is made (HMAC of a shared secret) is the host's.
 */
import { assert } from '../base/index.ts'
import type { FrameWriter } from './frame-writer.ts'
import {
  NONCE_BYTES,
  WIRE_VERSION,
  WIRE_VERSION_OLDEST,
  decodeHello,
  encodeHello,
} from './hello.ts'
import type { Hello, HelloBody } from './hello.ts'
import { protocolError } from './protocol-error.ts'
import { TAG, tagName } from './tag.ts'

export type HandshakeSide = 'initiator' | 'acceptor'

export interface HandshakeOptions {
  readonly side: HandshakeSide
  readonly self: Omit<HelloBody, 'authRequired'>
  /** 16 random bytes, never used before. */
  readonly nonce: Uint8Array
  /** Keyed digest of a message. Absent: no secret, nothing is proved or asked for. */
  readonly prove?: (message: Uint8Array) => Uint8Array
  /** The acceptor's last check before it sends its proof: throws what ends the connection. */
  readonly admit?: () => void
}

const NO_PROOF = new Uint8Array(0)

export class Handshake {
  readonly #options: HandshakeOptions
  #peer: Hello | null = null
  #isReady = false

  constructor(options: HandshakeOptions) {
    assert(options.nonce.length === NONCE_BYTES, 'a nonce has 16 bytes')
    this.#options = options
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** What the other side said; only once it is ready. */
  get peer(): Hello {
    assert(this.#isReady && this.#peer !== null, 'the handshake is over')
    return this.#peer
  }

  begin(writer: FrameWriter): void {
    const { self, nonce, prove } = this.#options
    encodeHello(writer, {
      ...self,
      version: WIRE_VERSION,
      versionOldest: WIRE_VERSION_OLDEST,
      nonce,
      authRequired: prove !== undefined,
    })
  }

  /** Takes the frames until it is ready; writes the answers. Throws what ends the connection. */
  onFrame(tag: number, bytes: Uint8Array, start: number, end: number, writer: FrameWriter): void {
    if (tag === TAG.HELLO && this.#peer === null) {
      this.#onHello(decodeHello(bytes, start, end), writer)
    } else if (tag === TAG.AUTH && this.#peer !== null) {
      this.#onAuth(this.#peer, bytes.subarray(start, end), writer)
    } else {
      const expected = this.#peer === null ? 'HELLO' : 'AUTH'
      throw protocolError('hello.expected', `${tagName(tag)} came where ${expected} was due`)
    }
  }

  #onHello(peer: Hello, writer: FrameWriter): void {
    const { side, prove } = this.#options
    if (peer.authRequired && prove === undefined) {
      throw protocolError(
        'hello.unauthenticated',
        'the peer wants a shared secret and this process has none: give both the same',
      )
    }
    this.#peer = peer
    if (side === 'initiator') this.#prove(peer, writer)
  }

  #prove(peer: Hello, writer: FrameWriter): void {
    const { side, nonce, prove } = this.#options
    const proof = prove?.(statement(side, peer.nonce, nonce)) ?? NO_PROOF
    writer.begin(TAG.AUTH).bytes(proof).end()
  }

  #onAuth(peer: Hello, proof: Uint8Array, writer: FrameWriter): void {
    const { side, nonce, prove } = this.#options
    const peerSide = side === 'initiator' ? 'acceptor' : 'initiator'
    if (prove && !isSame(proof, prove(statement(peerSide, nonce, peer.nonce)))) {
      throw protocolError(
        'hello.unauthenticated',
        'the peer does not know the shared secret of this process',
      )
    }
    if (side === 'acceptor') {
      this.#options.admit?.()
      this.#prove(peer, writer)
    }
    this.#isReady = true
  }
}

function statement(side: HandshakeSide, theirs: Uint8Array, own: Uint8Array): Uint8Array {
  const message = new Uint8Array(1 + 2 * NONCE_BYTES)
  message[0] = side === 'initiator' ? 1 : 2
  message.set(theirs, 1)
  message.set(own, 1 + NONCE_BYTES)
  return message
}

/** Takes the same time wherever the first difference is. */
function isSame(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false
  let difference = 0
  for (let i = 0; i < left.length; i++) difference |= (left[i] ?? 0) ^ (right[i] ?? 0)
  return difference === 0
}
