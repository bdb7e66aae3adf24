/**
 * One TCP connection that speaks the dialect `baton`: handshake, frames in, frames out, and a pulse.
 *
 * Owns: the socket, its one write per turn, the deadlines (handshake, silence), and the one reason by which it ends.
 * Does not own: what frames mean after the handshake. `onClosed` is called exactly once, whatever happened.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'

import { BatonError } from '../../base/index.ts'
import {
  FrameDecoder,
  FrameWriter,
  Handshake,
  NONCE_BYTES,
  SKIPPABLE,
  STRANGER_BYTES_MAX,
  TAG,
  batonLimits,
  decodeRecord,
  encodePlain,
  protocolError,
  strangerLimits,
} from '../../wire/index.ts'
import { wireFailure } from './wire-tls.ts'
import type {
  FrameHandler,
  FrameLimits,
  HandshakeSide,
  Hello,
  HelloBody,
} from '../../wire/index.ts'

export interface WireTiming {
  /** A PING is sent after so long. */
  readonly pingEveryMs: number
  /** A peer that is silent for so long is gone. */
  readonly silenceMs: number
  readonly handshakeMs: number
}

const WIRE_TIMING: WireTiming = { pingEveryMs: 5_000, silenceMs: 20_000, handshakeMs: 5_000 }

export interface WireSocketOptions {
  readonly side: HandshakeSide
  readonly self: Omit<HelloBody, 'authRequired'>
  readonly secret?: string | undefined
  readonly limits?: FrameLimits
  readonly timing?: WireTiming | undefined
  /** Asked once the peer has proved itself: null, or why it cannot stay. */
  readonly admit?: (() => BatonError | null) | undefined
  /** Payloads of this tag go to `onPart` as they come. */
  readonly streamedTag?: number
}

export interface WireSocketHandler extends FrameHandler {
  onReady(peer: Hello): void
  /** The socket's buffer is empty again after a write that did not fit. */
  onDrain?(): void
  /** The peer has read everything that was written before a PING, and what it wrote before its answer has been received. */
  onPong?(): void
  onClosed(reason: BatonError): void
}

export class WireSocket {
  readonly writer = new FrameWriter()
  readonly #socket: Socket
  readonly #handler: WireSocketHandler
  readonly #handshake: Handshake
  readonly #decoder: FrameDecoder
  readonly #timing: WireTiming
  readonly #limits: FrameLimits
  readonly #pulse: NodeJS.Timeout
  #beforeFlush: () => void = () => undefined
  #isFlushDue = false
  #isReady = false
  #isClosed = false
  readonly #openedAtMs = performance.now()
  #heardAtMs = performance.now()
  #pulsedAtMs = performance.now()
  #pingedAtMs = performance.now()
  #goodbye: BatonError | null = null
  #heardSome = false
  /** Before the handshake was over. */
  #strangerBytes = 0

  constructor(socket: Socket, options: WireSocketOptions, handler: WireSocketHandler) {
    const { side, self, secret, timing = WIRE_TIMING, limits = batonLimits() } = options
    this.#socket = socket
    this.#handler = handler
    this.#timing = timing
    this.#handshake = new Handshake({
      side,
      self,
      nonce: randomBytes(NONCE_BYTES),
      admit: () => {
        const refusal = options.admit?.() ?? null
        if (refusal !== null) throw refusal
      },
      ...(secret ? { prove: (text) => createHmac('sha256', secret).update(text).digest() } : {}),
    })
    const onPart = handler.onPart?.bind(handler)
    this.#limits = limits
    this.#decoder = new FrameDecoder(
      strangerLimits(),
      { onFrame: this.#onFrame.bind(this), ...(onPart ? { onPart } : {}) },
      options.streamedTag,
    )
    this.#pulse = setInterval(() => this.#onPulse(), Math.min(1_000, timing.pingEveryMs / 2))
    this.#pulse.unref()
    this.#attach()
    this.#handshake.begin(this.writer)
    this.flush()
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isClosed
  }

  /** Bytes that the kernel has not taken yet. */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  /** Called right before every flush, to close a frame that is still open in the writer. */
  set beforeFlush(close: () => void) {
    this.#beforeFlush = close
  }

  /** What is in the writer goes out at the end of this turn of the event loop, in one write. */
  flushSoon(): void {
    if (this.#isFlushDue) return
    this.#isFlushDue = true
    setImmediate(() => {
      if (this.#isFlushDue) this.flush()
    })
  }

  /** False: the kernel does not take more now; `onDrain` follows. */
  flush(): boolean {
    this.#isFlushDue = false
    if (this.#isClosed) return true
    this.#beforeFlush()
    return this.#writeOut()
  }

  /** Bytes that follow the frame head just flushed, uncopied. */
  writeRaw(bytes: Uint8Array): boolean {
    return this.#isClosed || this.#socket.write(bytes)
  }

  cork(): void {
    this.#socket.cork()
  }

  uncork(): void {
    this.#socket.uncork()
  }

  /** Tells the peer why and closes. Idempotent; the first reason stands. */
  close(reason: BatonError): void {
    if (this.#isClosed) return
    this.#beforeFlush()
    this.writer.begin((TAG.GOODBYE | SKIPPABLE) >>> 0)
    this.writer.bytes(encodePlain(reason.toValue(), 'GOODBYE')).end()
    if (this.#socket.writable) this.#writeOut()
    this.#end(reason)
    this.#socket.destroySoon()
    // A peer that does not read would keep the socket for ever.
    const force = setTimeout(() => this.#socket.destroy(), 1_000)
    force.unref()
    this.#socket.once('close', () => clearTimeout(force))
  }

  /** Pieces that are not copied and what follows them are one write, too. */
  #writeOut(): boolean {
    const long = this.writer.takeLong()
    const bytes = this.writer.take()
    if (long === null) return bytes === undefined || this.#socket.write(bytes)
    this.#socket.cork()
    for (const part of long) this.#socket.write(part)
    if (bytes !== undefined) this.#socket.write(bytes)
    this.#socket.uncork()
    return !this.#socket.writableNeedDrain
  }

  #attach(): void {
    const socket = this.#socket
    socket.setNoDelay(true)
    socket.on('data', (piece: Buffer) => this.receive(piece))
    socket.on('drain', () => this.#handler.onDrain?.())
    socket.on('error', (error) => {
      this.#fail(wireFailure(error, 'transport.disconnected'))
    })
    socket.on('end', () => {
      const hint = this.#heardSome ? '' : ' without a word: does it want TLS?'
      const hungUp = new BatonError('transport.disconnected', `the peer hung up${hint}`)
      this.#fail(this.#goodbye ?? hungUp)
    })
    socket.on('close', () => {
      this.#fail(this.#goodbye ?? new BatonError('transport.disconnected', 'connection closed'))
    })
  }

  /** Bytes of a socket that was made with its own read buffer (`onread`) and so has no 'data' events. */
  receive(piece: Uint8Array): void {
    if (this.#isClosed) return
    this.#heardAtMs = performance.now()
    try {
      if (!this.#heardSome) refuseTls(piece)
      this.#heardSome = true
      if (!this.#isReady) this.#strangerBytes += piece.length
      this.#decoder.push(piece)
      if (!this.#isReady && this.#strangerBytes > STRANGER_BYTES_MAX) throw tooMuchOfStranger()
    } catch (error) {
      this.close(BatonError.from(error))
    }
  }

  #onFrame(tag: number, bytes: Uint8Array, start: number, end: number): void {
    if (tag === TAG.GOODBYE) {
      this.#onGoodbye(bytes, start, end)
    } else if (!this.#isReady) {
      this.#handshake.onFrame(tag, bytes, start, end, this.writer)
      this.flush()
      if (!this.#handshake.isReady) return
      this.#isReady = true
      this.#decoder.limits = this.#limits
      this.#handler.onReady(this.#handshake.peer)
    } else if (tag === TAG.PING) {
      this.#beforeFlush()
      this.writer.begin(TAG.PONG).bytes(bytes.subarray(start, end)).end()
      this.flushSoon()
    } else if (tag === TAG.PONG) {
      this.#handler.onPong?.()
    } else {
      this.#handler.onFrame(tag, bytes, start, end)
    }
  }

  #onGoodbye(bytes: Uint8Array, start: number, end: number): void {
    const { code, message } = decodeRecord(bytes, start, end, 'GOODBYE')
    const cause = BatonError.fromValue({ code: String(code), message: String(message) })
    // What the peer says of us before it knows us is the reason of the failed attempt; later it is only a lost link.
    this.#goodbye = this.#isReady
      ? new BatonError('transport.disconnected', `the peer closed: ${cause.message}`, { cause })
      : cause
  }

  #onPulse(): void {
    const now = performance.now()
    const { handshakeMs, pingEveryMs, silenceMs } = this.#timing
    // After a long turn of this event loop, what the peer said is still unread: that is no silence.
    if (now - this.#pulsedAtMs > silenceMs / 2) this.#heardAtMs = now
    this.#pulsedAtMs = now
    const silence = now - this.#heardAtMs
    if (!this.#isReady && now - this.#openedAtMs > handshakeMs) {
      this.#fail(new BatonError('transport.connection_timeout', 'no handshake in time'))
    } else if (silence > silenceMs) {
      const text = `nothing received for ${Math.round(silence)} ms`
      this.#fail(new BatonError('transport.disconnected', text, { data: { silenceMs } }))
    } else if (this.#isReady && now - this.#pingedAtMs >= pingEveryMs) {
      this.#pingedAtMs = now
      this.ping()
      this.flush()
    }
  }

  /** Leaves with the next flush. */
  ping(): void {
    this.#beforeFlush()
    this.writer.begin(TAG.PING).f64(performance.now()).end()
    this.flushSoon()
  }

  #fail(reason: BatonError): void {
    this.#end(reason)
    this.#socket.destroy()
  }

  #end(reason: BatonError): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#pulse)
    this.#decoder.stop()
    this.#handler.onClosed(reason)
  }
}

function tooMuchOfStranger(): BatonError {
  const text = `more than ${STRANGER_BYTES_MAX} bytes before the handshake was over`
  return protocolError('frame.too_long', text)
}

/** The first bytes of a TLS record: handshake or alert, version 3.1 to 3.4. As a frame's length they would be too much. */
function refuseTls(piece: Uint8Array): void {
  const [type, major, minor = 0] = piece
  if ((type !== 0x16 && type !== 0x15) || major !== 0x03 || minor < 1 || minor > 4) return
  throw new BatonError(
    'transport.protocol',
    'the peer speaks TLS and this process does not: give both --tls-cert, --tls-key and --tls-ca',
  )
}
