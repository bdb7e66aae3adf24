/**
 * One connection to an upstream: carries one request at a time, and reports how it ended.
 *
 * Owns: the socket and its deadlines. Does not own: the choice of requests, retries, the pool.
 */
import { connect as connectTcp, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { BatonError } from '../../base/index.ts'
import { connectFailure } from './connect-failure.ts'
import { ResponseParser } from './response-parser.ts'
import type { ResponseEvents, ResponseHead } from './response-parser.ts'
import type { UpstreamUrl } from './upstream-url.ts'

export interface ConnectionDeadlines {
  readonly connectMs: number
  /** From the request to the first byte of the response. */
  readonly headMs: number
  /** Between two pieces of the response. */
  readonly idleMs: number
  /** From the request until a connection is given up whose peer has not acknowledged it; Linux only. */
  readonly unconfirmedMs: number
}

export interface ConnectionUser {
  onHead(head: ResponseHead): void
  /** Bytes of the body between `start` and `end`, valid during the call only. */
  onBody(bytes: Buffer, start: number, end: number): void
  /** All data of one read was reported, and the response continues. */
  onRead(): void
  onEnd(isReusable: boolean): void
  /** Nothing follows. `hasBytes`: a part of the response had arrived. */
  onLost(error: BatonError, hasBytes: boolean): void
}

/** Of silence; then Node makes the system probe ten times, once a second. */
const KEEP_ALIVE_MS = 10_000

/** A longer body is not worth a copy. */
const ONE_WRITE_BYTES_MAX = 16 * 1024

/**
 * The buffer in which head and body are joined, shared by all connections, because the system usually takes them at
 * once. If not, this memory becomes the socket's, and the next request gets a new buffer.
 */
let oneWrite = Buffer.allocUnsafeSlow(ONE_WRITE_BYTES_MAX)

/** Every socket reads into this buffer, and its content is reported at once, so a read allocates nothing. */
const READ_BYTES = Buffer.allocUnsafeSlow(64 * 1024)

export class UpstreamConnection implements ResponseEvents {
  /** How long nothing has arrived, in ticks of the client's watch. */
  quietTicks = 0
  readonly #socket: Socket
  readonly #url: UpstreamUrl
  #deadlines: ConnectionDeadlines
  #user: ConnectionUser | null = null
  readonly #parser = new ResponseParser(this)
  #isConnected = false
  #isPaused = false
  #requests = 0
  #parkedMs = 0
  #onIdleGone: (() => void) | null = null

  constructor(url: UpstreamUrl, deadlines: ConnectionDeadlines) {
    this.#url = url
    this.#deadlines = deadlines
    const { host, hostName, port, isTls } = url
    const name = hostName ?? (isIP(host) === 0 ? host : null)
    const ready = isTls ? 'secureConnect' : 'connect'
    // A TLS socket has its own buffers.
    this.#socket = isTls
      ? connectTls({
          host,
          port,
          ...(name === null ? {} : { servername: name }),
          ALPNProtocols: ['http/1.1'],
        })
      : connectTcp({ host, port, onread: { buffer: READ_BYTES, callback: this.#onRead } })
    this.#socket.setNoDelay(true)
    // A machine that is gone does not answer the probes; one whose server computes for long does.
    this.#socket.setKeepAlive(true, KEEP_ALIVE_MS)
    this.#socket.once(ready, () => {
      this.#isConnected = true
      this.quietTicks = 0
    })
    if (isTls) this.#socket.on('data', (bytes: Buffer) => this.#onData(bytes, bytes.length))
    this.#socket.on('error', (error) => this.#onGone(error))
    this.#socket.once('close', () => this.#onGone(null))
  }

  /** True after the first request: a failure now may be the server's idle timeout. */
  get wasUsed(): boolean {
    return this.#requests > 1
  }

  /** Nothing of what was sent waits in this process. */
  get isSent(): boolean {
    return this.#socket.writableLength === 0
  }

  send(
    user: ConnectionUser,
    head: string,
    body: string | Uint8Array | undefined,
    options: { readonly hasBody: boolean; readonly deadlines: ConnectionDeadlines },
  ): void {
    this.#user = user
    this.#requests += 1
    this.#deadlines = options.deadlines
    this.#onIdleGone = null
    this.quietTicks = 0
    this.#socket.ref()
    this.#parser.restart(options.hasBody)
    this.#write(head, body)
  }

  /** A short body is written together with the head, in one plain write. */
  #write(head: string, body: string | Uint8Array | undefined): void {
    if (body === undefined) {
      this.#socket.write(head, 'latin1')
      return
    }
    if (typeof body !== 'string' && head.length + body.length <= ONE_WRITE_BYTES_MAX) {
      this.#writeTogether(head, body)
      return
    }
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
    this.#socket.uncork()
  }

  #writeTogether(head: string, body: Uint8Array): void {
    const length = head.length + body.length
    // A TLS socket never takes written data at once.
    const bytes = this.#url.isTls ? Buffer.allocUnsafe(length) : oneWrite
    bytes.write(head, 'latin1')
    bytes.set(body, head.length)
    this.#socket.write(bytes.subarray(0, length))
    if (bytes === oneWrite && this.#socket.writableLength > 0) {
      oneWrite = Buffer.allocUnsafeSlow(ONE_WRITE_BYTES_MAX)
    }
  }

  pause(): void {
    this.#isPaused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.quietTicks = 0
    this.#socket.resume()
  }

  /** Waits for another request for at most `idleMs`. */
  park(idleMs: number, onGone: () => void): void {
    this.#user = null
    this.#onIdleGone = onGone
    this.#parkedMs = idleMs
    this.quietTicks = 0
    // An idle connection does not keep the process alive.
    this.#socket.unref()
    if (this.#isPaused) this.resume()
  }

  onHead(head: ResponseHead): void {
    this.#user?.onHead(head)
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    this.#user?.onBody(bytes, start, end)
  }

  onEnd(isReusable: boolean): void {
    const user = this.#user
    this.#user = null
    user?.onEnd(isReusable)
  }

  /** Called when another tick has passed without data. False: the connection is gone and need not be watched. */
  tick(tickMs: number): boolean {
    if (this.#socket.destroyed) return false
    this.quietTicks += 1
    // The first tick came at an unknown time after the last byte.
    if (!this.#isPaused && (this.quietTicks - 1) * tickMs >= this.#limitMs) this.#onTimeout()
    return !this.#socket.destroyed
  }

  waitingFor(quietMs: number, tickMs: number): readonly [number, number] | null {
    const isQuiet = (this.quietTicks - 1) * tickMs >= quietMs
    if (!isQuiet || this.#user === null || !this.#isConnected || this.#isPaused) return null
    const { localPort, remotePort } = this.#socket
    return localPort === undefined || remotePort === undefined ? null : [localPort, remotePort]
  }

  vanished(): void {
    const what = 'does not acknowledge the request: its machine is gone or cannot be reached'
    this.#fail(this.#error('transport.connection_timeout', what))
  }

  /** Nothing is reported afterwards. */
  destroy(): void {
    this.#user = null
    this.#onIdleGone = null
    this.#socket.destroy()
  }

  get #limitMs(): number {
    const { connectMs, headMs, idleMs } = this.#deadlines
    if (!this.#isConnected) return connectMs
    if (this.#user === null) return this.#parkedMs
    return this.#parser.hasBytes ? idleMs : headMs
  }

  readonly #onRead = (length: number, bytes: Uint8Array): boolean => {
    this.#onData(bytes as Buffer, length)
    return true
  }

  #onData(bytes: Buffer, length: number): void {
    // An unrequested byte makes the connection unusable.
    if (this.#user === null) {
      this.#socket.destroy()
      return
    }
    this.quietTicks = 0
    try {
      this.#parser.push(bytes, length)
      if (!this.#parser.isDone) this.#user?.onRead()
    } catch (thrown) {
      this.#fail(BatonError.from(thrown))
    }
  }

  #onTimeout(): void {
    if (this.#user === null) {
      this.#socket.destroy()
      return
    }
    const waited = this.#limitMs
    const what = !this.#isConnected
      ? 'did not accept a connection'
      : this.#parser.hasBytes
        ? 'sent nothing more'
        : 'did not answer'
    this.#fail(this.#error('transport.connection_timeout', `${what} within ${waited} ms`))
  }

  #onGone(cause: NodeJS.ErrnoException | null): void {
    const onIdleGone = this.#onIdleGone
    this.#onIdleGone = null
    onIdleGone?.()
    if (this.#user === null) return
    if (cause === null && this.#parser.close() === true) return
    if (!this.#isConnected) {
      this.#fail(this.#error('transport.cannot_connect', connectFailure(cause), cause))
    } else {
      const text = this.#parser.hasBytes ? 'in the middle of' : 'before'
      this.#fail(
        this.#error('transport.disconnected', `closed the connection ${text} its response`, cause),
      )
    }
  }

  #fail(error: BatonError): void {
    const user = this.#user
    const hasBytes = this.#parser.hasBytes
    this.destroy()
    user?.onLost(error, hasBytes)
  }

  #error(
    code: 'transport.cannot_connect' | 'transport.disconnected' | 'transport.connection_timeout',
    what: string,
    cause: Error | null = null,
  ): BatonError {
    // The address is for operators; the message for clients is written elsewhere.
    return new BatonError(code, `the upstream ${what}`, {
      data: { stage: 'upstream' },
      cause: cause ?? new Error(`upstream ${this.#url.text}`),
    })
  }
}
