/**
 * One TCP connection with the wire protocol `baton`: handshake, frames in both directions, and a heartbeat.
 *
 * Owns: the socket, its single write per turn, the deadlines (handshake, silence), and the reason of its end. Does
 * not own: the meaning of frames after the handshake. `onClosed` is called exactly once in any case.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

import { BatonError } from '../../base/index.ts'
import {
  FRAME_SUMS,
  FrameDecoder,
  FrameWriter,
  Handshake,
  NONCE_BYTES,
  PayloadReader,
  SKIPPABLE,
  STRANGER_BYTES_MAX,
  SummedOutput,
  TAG,
  batonLimits,
  decodeRecord,
  encodePlain,
  protocolError,
  strangerLimits,
} from '../../wire/index.ts'
import { unheardEndOf } from './unheard-end.ts'
import { wireFailure } from './wire-tls.ts'
import type {
  FrameHandler,
  FrameLimits,
  HandshakeSide,
  Hello,
  HelloBody,
} from '../../wire/index.ts'

export interface WireTiming {
  /** Interval of PING frames. */
  readonly pingEveryMs: number
  /** A peer that is silent for this time counts as lost. */
  readonly silenceMs: number
  readonly handshakeMs: number
}

/**
 * A peer that leaves more than this unread gets no more answers: otherwise it could ask on and on. An accepted peer is not
 * read from until it has read; if it reads nothing for `silenceMs`, it counts as lost (after twice that time at most,
 * because the socket looks once per `silenceMs` whether it got rid of any byte). A peer that this side has connected
 * to may need longer to read (KV of `boostr` is one frame); only its PINGs are ignored.
 */
const UNREAD_BYTES_MAX = 64 * 1024 * 1024

const WIRE_TIMING: WireTiming = { pingEveryMs: 5_000, silenceMs: 20_000, handshakeMs: 5_000 }

export interface WireSocketOptions {
  readonly side: HandshakeSide
  readonly self: Omit<HelloBody, 'authRequired'>
  readonly secret?: string | undefined
  readonly limits?: FrameLimits
  readonly timing?: WireTiming | undefined
  /** Called after the peer has authenticated: null, or the error with which it is refused. */
  readonly admit?: (() => BatonError | null) | undefined
  /** Payloads of this tag are passed to `onPart` as they arrive. */
  readonly streamedTag?: number
  /** False: no checksums under the frames (`frame-sums.ts`). Otherwise the peer decides, and TLS has its own. */
  readonly areSummed?: boolean
}

export interface WireSocketHandler extends FrameHandler {
  onReady(peer: Hello): void
  /** The socket's buffer is empty again after a write that did not fit. */
  onDrain?(): void
  /**
   * The peer has read everything written before a PING, and everything that it wrote before its answer was received.
   * `sentAtMs`: what `ping` returned.
   */
  onPong?(sentAtMs: number): void
  /** True: a PING is answered later, by `answerPing`. */
  holdsPing?(): boolean
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
  readonly #isAcceptor: boolean
  /** From the end of this side's handshake on, if both sides have the capability. */
  #sums: SummedOutput | null = null
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
  /** Of the newest PING that is not answered yet; its answer is also one to those before it. */
  #heldPing: Uint8Array | null = null
  #heardSome = false
  /** Bytes received before the end of the handshake. */
  #strangerBytes = 0

  constructor(socket: Socket, options: WireSocketOptions, handler: WireSocketHandler) {
    const { side, secret, timing = WIRE_TIMING, limits = batonLimits() } = options
    const areSummed = options.areSummed !== false && !(socket instanceof TLSSocket)
    const { capabilities } = options.self
    const self = areSummed
      ? { ...options.self, capabilities: [...capabilities, FRAME_SUMS] }
      : options.self
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
    this.#isAcceptor = side === 'acceptor'
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

  /** Bytes that the kernel has not accepted yet. */
  get unsentBytes(): number {
    return this.#socket.writableLength
  }

  /** Called right before every flush, to close a frame that is still open in the writer. */
  set beforeFlush(close: () => void) {
    this.#beforeFlush = close
  }

  /** The content of the writer is sent at the end of this turn of the event loop, in one write. */
  flushSoon(): void {
    if (this.#isFlushDue) return
    this.#isFlushDue = true
    setImmediate(() => {
      if (this.#isFlushDue) this.flush()
    })
  }

  /** False: the kernel accepts no more now; `onDrain` follows. */
  flush(): boolean {
    this.#isFlushDue = false
    if (this.#isClosed) return true
    this.#beforeFlush()
    return this.#writeOut()
  }

  /** Bytes after the frame head that was just flushed, sent without a copy. */
  writeRaw(bytes: Uint8Array): boolean {
    if (this.#isClosed) return true
    if (this.#sums === null) return this.#socket.write(bytes)
    this.#sums.sealBytes(bytes)
    return this.#send(this.#sums.records)
  }

  cork(): void {
    this.#socket.cork()
  }

  uncork(): void {
    this.#socket.uncork()
  }

  /** Tells the peer the reason and closes. Idempotent; the first reason counts. */
  close(reason: BatonError): void {
    if (this.#isClosed) return
    this.#beforeFlush()
    this.writer.begin((TAG.GOODBYE | SKIPPABLE) >>> 0)
    this.writer.bytes(encodePlain(reason.toValue(), 'GOODBYE')).end()
    if (this.#socket.writable) this.#writeOut()
    this.#end(reason)
    this.#socket.destroySoon()
    // A peer that does not read would keep the socket open for ever.
    const force = setTimeout(() => this.#socket.destroy(), 1_000)
    force.unref()
    this.#socket.once('close', () => clearTimeout(force))
  }

  #writeOut(): boolean {
    if (this.#sums === null) return this.#send(this.writer)
    this.#sums.seal(this.writer)
    return this.#send(this.#sums.records)
  }

  /** Uncopied pieces and the bytes after them are sent in one write too. */
  #send(writer: FrameWriter): boolean {
    const long = writer.takeLong()
    const bytes = writer.take()
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
    socket.on('drain', () => this.#onDrain())
    // Set only while an accepted peer is not read from, so only what it reads is activity. With TLS, only the end of a
    // write is: Node does not show how much of it was sent.
    const { silenceMs } = this.#timing
    socket.on('timeout', () => {
      const text = `the peer has read nothing for ${silenceMs} ms`
      this.#fail(new BatonError('transport.disconnected', text, { data: { silenceMs } }))
    })
    const unheardEnd = unheardEndOf(socket, this.#isAcceptor)
    socket.on('error', (error) => {
      this.#fail(this.#heardSome ? wireFailure(error, 'transport.disconnected') : unheardEnd(error))
    })
    socket.on('end', () => {
      const hungUp = this.#heardSome
        ? new BatonError('transport.disconnected', 'the peer closed the connection')
        : unheardEnd(null)
      this.#fail(this.#goodbye ?? hungUp)
    })
    socket.on('close', () => {
      this.#fail(this.#goodbye ?? new BatonError('transport.disconnected', 'connection closed'))
    })
  }

  #onDrain(): void {
    if (this.#isAcceptor && this.#socket.isPaused()) {
      this.#socket.setTimeout(0)
      this.resumeReading()
    }
    this.#handler.onDrain?.()
  }

  /** Bytes of a socket that has its own read buffer (`onread`) and therefore no 'data' events. */
  receive(piece: Uint8Array): void {
    if (this.#isClosed) return
    this.#heardAtMs = performance.now()
    try {
      if (!this.#heardSome) refuseTls(piece)
      this.#heardSome = true
      if (!this.#isReady) this.#strangerBytes += piece.length
      this.#decoder.push(piece)
      if (!this.#isReady && this.#strangerBytes > STRANGER_BYTES_MAX) throw tooMuchOfStranger()
      if (this.#isAcceptor && this.#leavesUnread) {
        this.#socket.pause()
        this.#socket.setTimeout(this.#timing.silenceMs)
      }
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
      const { hasProved, helloSums } = this.#handshake
      const isSummed = this.#handshake.areBothCapable(FRAME_SUMS)
      if (hasProved && isSummed) this.#sums ??= new SummedOutput(helloSums.own)
      if (!this.#handshake.isReady) return
      if (isSummed) this.#decoder.expectSums(helloSums.peer)
      this.#isReady = true
      this.#decoder.limits = this.#limits
      this.#handler.onReady(this.#handshake.peer)
    } else if (tag === TAG.PING) {
      if (!this.#isAcceptor && this.#leavesUnread) return
      this.#heldPing = new Uint8Array(bytes.subarray(start, end))
      if (this.#handler.holdsPing?.() !== true) this.answerPing()
    } else if (tag === TAG.PONG) {
      const isOurs = end - start === 8
      this.#handler.onPong?.(isOurs ? new PayloadReader(bytes, start, end).f64() : NaN)
    } else {
      this.#handler.onFrame(tag, bytes, start, end)
    }
  }

  get #leavesUnread(): boolean {
    return this.#socket.writableLength > UNREAD_BYTES_MAX
  }

  #onGoodbye(bytes: Uint8Array, start: number, end: number): void {
    const { code, message } = decodeRecord(bytes, start, end, 'GOODBYE')
    const cause = BatonError.fromValue({ code: String(code), message: String(message) })
    // A GOODBYE during the handshake is the reason of a failed attempt; later it means only that the connection is
    // lost.
    this.#goodbye = this.#isReady
      ? new BatonError(
          'transport.disconnected',
          `the peer closed the connection: ${cause.message}`,
          { cause },
        )
      : cause
  }

  #onPulse(): void {
    const now = performance.now()
    const { handshakeMs, pingEveryMs, silenceMs } = this.#timing
    // After a long turn of this event loop, data of the peer may still be unread, which is not silence.
    if (now - this.#pulsedAtMs > silenceMs / 2) this.#heardAtMs = now
    this.#pulsedAtMs = now
    // Nothing can be heard of a peer that is not read from because it leaves too much unread: see 'timeout'.
    const isPaused = this.#isAcceptor && this.#socket.isPaused()
    const silence = isPaused ? 0 : now - this.#heardAtMs
    if (!this.#isReady && now - this.#openedAtMs > handshakeMs) {
      this.#fail(new BatonError('transport.connection_timeout', 'the handshake timed out'))
    } else if (silence > silenceMs) {
      const text = `nothing received for ${Math.round(silence)} ms`
      this.#fail(new BatonError('transport.disconnected', text, { data: { silenceMs } }))
    } else if (this.#isReady && now - this.#pingedAtMs >= pingEveryMs) {
      this.#pingedAtMs = now
      this.ping()
      this.flush()
    }
  }

  /** When data of the peer arrived last, by the monotonic clock. */
  get heardAtMs(): number {
    return this.#heardAtMs
  }

  /** Sent with the next flush. Returns the time in it. */
  ping(): number {
    const nowMs = performance.now()
    this.#beforeFlush()
    this.writer.begin(TAG.PING).f64(nowMs).end()
    this.flushSoon()
    return nowMs
  }

  /** Answers the PING that was held back, if there is one. */
  answerPing(): void {
    const payload = this.#heldPing
    if (payload === null || this.#isClosed) return
    this.#heldPing = null
    this.#beforeFlush()
    this.writer.begin(TAG.PONG).bytes(payload).end()
    this.flushSoon()
  }

  /** For a side that has connected; an accepted peer is paused if it does not read. */
  pauseReading(): void {
    this.#socket.pause()
  }

  resumeReading(): void {
    if (this.#isClosed || !this.#socket.isPaused()) return
    this.#heardAtMs = performance.now()
    this.#socket.resume()
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
  const text = `the peer sent more than ${STRANGER_BYTES_MAX} bytes before the end of the handshake`
  return protocolError('frame.too_long', text)
}

/**
 * Detects the first bytes of a TLS record: handshake or alert, version 3.1 to 3.4. As the length of a frame they
 * would exceed the limit.
 */
function refuseTls(piece: Uint8Array): void {
  const [type, major, minor = 0] = piece
  if ((type !== 0x16 && type !== 0x15) || major !== 0x03 || minor < 1 || minor > 4) return
  throw new BatonError(
    'transport.tls_failed',
    'the peer uses TLS and this process does not: give both --tls-cert, --tls-key and --tls-ca',
  )
}
