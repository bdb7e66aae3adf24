/**
 * The start of a connection in the dialect `baton`, without a socket: HELLO in both directions, then AUTH, the
 * initiator first.
 *
 *   initiator ── HELLO(nonce a) ────▶ ◀── HELLO(nonce b) ── acceptor     both at once
 *   initiator ── AUTH(prove(I,b,a)) ─▶                      acceptor     checks it
 *   initiator    checks it        ◀── AUTH(prove(A,a,b)) ── acceptor     empty if no secret is set
 *
 * The acceptor never sends its proof to an unauthenticated peer, which could use it to guess the secret offline.
 * (Acceptors of old versions send it at once; the initiator accepts both orders.)
 *
 * The proof contains the role of the prover, so that a proof cannot be reflected, and both nonces, so that it cannot
 * be replayed. How a proof is computed (HMAC with a shared secret) is up to room `network`.
 */
import { assert, BatonError } from '../base/index.ts'
import { frameSum } from './frame-sums.ts'
import { FrameWriter, HEADER_BYTES } from './frame-writer.ts'
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
  /** Keyed digest of a message. Absent: there is no secret, and nothing is proved or required. */
  readonly prove?: (message: Uint8Array) => Uint8Array
  /** The acceptor's final check before it sends its proof: throws to end the connection. */
  readonly admit?: () => void
}

const NO_PROOF = new Uint8Array(0)
const HELLO_BYTES = 512

export class Handshake {
  readonly #options: HandshakeOptions
  #peer: Hello | null = null
  #isReady = false
  #hasProved = false
  #ownHelloSum = 0
  #peerHelloSum = 0

  constructor(options: HandshakeOptions) {
    assert(options.nonce.length === NONCE_BYTES, 'a nonce has 16 bytes')
    this.#options = options
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** Whether the last frame of this side's part (AUTH) has been written. */
  get hasProved(): boolean {
    return this.#hasProved
  }

  /** Whether both sides have a capability; false before the other side's HELLO. */
  areBothCapable(capability: string): boolean {
    const { capabilities } = this.#options.self
    return (
      capabilities.includes(capability) && this.#peer?.capabilities.includes(capability) === true
    )
  }

  /** Sums of the payloads of the HELLO that was sent and of the one that was received. */
  get helloSums(): { readonly own: number; readonly peer: number } {
    return { own: this.#ownHelloSum, peer: this.#peerHelloSum }
  }

  /** The other side's HELLO; only after the handshake is complete. */
  get peer(): Hello {
    assert(this.#isReady && this.#peer !== null, 'the handshake is over')
    return this.#peer
  }

  begin(writer: FrameWriter): void {
    const { self, nonce, prove } = this.#options
    const hello = new FrameWriter(HELLO_BYTES)
    encodeHello(hello, {
      ...self,
      version: WIRE_VERSION,
      versionOldest: WIRE_VERSION_OLDEST,
      nonce,
      authRequired: prove !== undefined,
    })
    const bytes = hello.take() as Uint8Array
    this.#ownHelloSum = frameSum(bytes, HEADER_BYTES, bytes.length)
    writer.bytes(bytes)
  }

  /** Handles the frames of the handshake and writes the replies. Throws to end the connection. */
  onFrame(tag: number, bytes: Uint8Array, start: number, end: number, writer: FrameWriter): void {
    if (tag === TAG.HELLO && this.#peer === null) {
      this.#peerHelloSum = frameSum(bytes, start, end)
      this.#onHello(decodeHello(bytes, start, end), writer)
    } else if (tag === TAG.AUTH && this.#peer !== null) {
      this.#onAuth(this.#peer, bytes.subarray(start, end), writer)
    } else {
      const expected = this.#peer === null ? 'HELLO' : 'AUTH'
      throw protocolError(
        'hello.expected',
        `unexpected frame ${tagName(tag)}: expected ${expected}`,
      )
    }
  }

  #onHello(peer: Hello, writer: FrameWriter): void {
    const { side, prove } = this.#options
    if (peer.authRequired && prove === undefined) {
      // Both sides see this text, so it does not say which of them has the secret.
      throw unauthenticated(
        'only one of the two processes has a shared secret: configure the same secret on both',
      )
    }
    this.#peer = peer
    if (side === 'initiator') this.#prove(peer, writer)
  }

  #prove(peer: Hello, writer: FrameWriter): void {
    const { side, nonce, prove } = this.#options
    const proof = prove?.(statement(side, peer.nonce, nonce)) ?? NO_PROOF
    writer.begin(TAG.AUTH).bytes(proof).end()
    this.#hasProved = true
  }

  #onAuth(peer: Hello, proof: Uint8Array, writer: FrameWriter): void {
    const { side, nonce, prove } = this.#options
    const peerSide = side === 'initiator' ? 'acceptor' : 'initiator'
    if (prove && !isSame(proof, prove(statement(peerSide, nonce, peer.nonce)))) {
      throw unauthenticated('the two processes have different shared secrets')
    }
    if (side === 'acceptor') {
      this.#options.admit?.()
      this.#prove(peer, writer)
    }
    this.#isReady = true
  }
}

function unauthenticated(why: string): BatonError {
  return new BatonError('transport.unauthenticated', why, {
    data: { reason: 'hello.unauthenticated' },
  })
}

function statement(side: HandshakeSide, theirs: Uint8Array, own: Uint8Array): Uint8Array {
  const message = new Uint8Array(1 + 2 * NONCE_BYTES)
  message[0] = side === 'initiator' ? 1 : 2
  message.set(theirs, 1)
  message.set(own, 1 + NONCE_BYTES)
  return message
}

/** Constant time, wherever the first difference is. */
function isSame(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false
  let difference = 0
  for (let i = 0; i < left.length; i++) difference |= (left[i] ?? 0) ^ (right[i] ?? 0)
  return difference === 0
}
